/** A server did not reply in time, or its reply is too long or broken. */
export class UnusableReplyError extends Error {
  override name = 'UnusableReplyError';
}

/**
 * `fetch` for calls to a server of the settings: no redirects, and bounds on the time of the whole exchange and on the
 * bytes of each reply, counted after decompression. The body of the result is already read.
 * @throws {UnusableReplyError}
 */
export function boundedFetch({ timeoutMs, maxReplyBytes }: { timeoutMs: number; maxReplyBytes: number }) {
  return async (url: string | URL | Request, options: RequestInit = {}): Promise<Response> => {
    const late = AbortSignal.timeout(timeoutMs);
    const signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
    try {
      const reply = await fetch(url, { ...options, redirect: 'manual', signal });
      const body = await readBody(reply, maxReplyBytes);
      const { status, headers } = reply;
      return new Response(body.length === 0 ? null : new Uint8Array(body), { status, headers });
    } catch (error) {
      if (error instanceof UnusableReplyError) throw error;
      if (late.aborted) throw new UnusableReplyError(`no reply within ${timeoutMs} ms`);
      const { message, cause } = error as Error;
      throw new UnusableReplyError(cause instanceof Error ? cause.message : message, { cause: cause ?? error });
    }
  };
}

async function readBody(reply: Response, maxReplyBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of reply.body ?? []) {
    bytes += chunk.length;
    // Leaving the loop cancels the rest of the reply.
    if (bytes > maxReplyBytes) throw new UnusableReplyError(`a reply has more than ${maxReplyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
