import type { CustomFetchOptions } from 'openid-client';

/** Discovery documents, key sets, tokens and claims take a few KiB. */
const maxReplyBytes = 256 * 1024;

/** The identity provider is unreachable, or its reply is unusable. */
export class ProviderUnreachable extends Error {
  override name = 'ProviderUnreachable';
}

/**
 * `fetch` for calls to an identity provider: no redirects, and bounds on the time and on the bytes of each reply,
 * counted after decompression.
 * @throws {ProviderUnreachable}
 */
export function boundedFetch(timeoutMs: number) {
  return async (url: string, options: CustomFetchOptions): Promise<Response> => {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const reply = await fetch(url, { ...options, redirect: 'manual', signal } as RequestInit);
      const body = await readBody(reply);
      if (reply.status >= 500) throw new ProviderUnreachable(`it answered ${reply.status}`);
      const { status, headers } = reply;
      return new Response(body.length === 0 ? null : new Uint8Array(body), { status, headers });
    } catch (error) {
      if (error instanceof ProviderUnreachable) throw error;
      if (signal.aborted) throw new ProviderUnreachable(`no reply within ${timeoutMs} ms`);
      const { message, cause } = error as Error;
      throw new ProviderUnreachable(cause instanceof Error ? cause.message : message);
    }
  };
}

async function readBody(reply: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of reply.body ?? []) {
    bytes += chunk.length;
    // Leaving the loop cancels the rest of the reply.
    if (bytes > maxReplyBytes) throw new ProviderUnreachable(`a reply has more than ${maxReplyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
