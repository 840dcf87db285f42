import { boundedFetch, UnusableReplyError } from '../../platform/config/bounded-fetch.ts';

/** A page of a hundred charges has less than a MiB. */
const maxReplyBytes = 8 * 1024 * 1024;
/** Errors of a connection that closed before the reply. */
const closedCodes = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

/**
 * `fetch` for the SDK of the payment processor. The SDK's own client limits neither the length nor the total time of a
 * reply, and a reply that is JSON but not an object makes the SDK reject a promise that nothing awaits.
 * @param ended gives up all requests when it is aborted
 * @throws {UnusableReplyError}
 */
export function processorFetch(timeoutMs: number, ended?: AbortSignal): typeof fetch {
  const bounded = boundedFetch({ timeoutMs, maxReplyBytes });
  return async (url, options) => {
    try {
      const signals = [options?.signal, ended].filter((each) => each instanceof AbortSignal);
      const reply = await bounded(url, { ...options, signal: AbortSignal.any(signals) });
      requireObject(await reply.clone().text(), reply.ok);
      return reply;
    } catch (error) {
      // With this code, the SDK repeats a request whose kept-alive connection was just being closed.
      if (isClosed(error)) throw Object.assign(error, { code: 'ECONNRESET' });
      throw error;
    }
  };
}

/** A success is an object with an id, or a list. A failure has an `error`. */
function requireObject(text: string, isSuccess: boolean): void {
  const content = parsed(text);
  // The SDK itself reports text that is not JSON.
  if (content === undefined) return;
  const { id, data, error } = (content ?? {}) as { id?: unknown; data?: unknown; error?: unknown };
  const isUsable = isSuccess ? typeof id === 'string' || Array.isArray(data) : typeof error === 'object' && error;
  if (!isUsable) throw new UnusableReplyError('a reply is no object of the payment processor');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isClosed(error: unknown): error is Error {
  return error instanceof UnusableReplyError && closedCodes.includes((error.cause as { code?: string })?.code ?? '');
}
