import { SandboxError } from './errors.ts';

/** How long one request may take, in every method that sends one. */
export interface RequestOptions {
  /** The error after this time is `timed_out`. Default: `requestTimeoutMs` of the connection. */
  requestTimeoutMs?: number;
  /** Ends the request. */
  signal?: AbortSignal | undefined;
}

/** The longest timer of Node, 25 days. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * Does `work` with a signal that aborts after the time of the request, or when the caller aborts.
 * @param what the request, for the message
 * @throws {SandboxError} `timed_out`; the reason of the caller's signal
 */
export async function withTimeout<Result>(
  { requestTimeoutMs = longestTimerMs, signal }: RequestOptions,
  what: string,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = new AbortController();
  const onTimeout = () => limit.abort(new SandboxError('timed_out', `${what}: no reply within ${requestTimeoutMs} ms`));
  const timer = setTimeout(onTimeout, Math.min(requestTimeoutMs, longestTimerMs));
  try {
    return await work(signal ? AbortSignal.any([signal, limit.signal]) : limit.signal);
  } finally {
    clearTimeout(timer);
  }
}
