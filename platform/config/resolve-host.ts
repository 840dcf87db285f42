import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';

/** The default time limit of resolv.conf(5) for two attempts at one nameserver. */
const limitMs = 10_000;

/**
 * The addresses of a host by the machine's resolver, which also reads `/etc/hosts`. The resolver's own limit grows with
 * the number of nameservers, and waiting lookups of other hosts come first.
 * @throws as `lookup`, and the reason of the signal or a TimeoutError when there is no answer by then or within ten
 * seconds
 */
export async function resolveHost(
  host: string,
  { signal, ...family }: { family?: 4; signal?: AbortSignal | undefined } = {},
): Promise<LookupAddress[]> {
  const late = AbortSignal.timeout(limitMs);
  const ended = signal ? AbortSignal.any([signal, late]) : late;
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(ended.reason);
  ended.addEventListener('abort', abort);
  try {
    ended.throwIfAborted();
    return await Promise.race([lookup(host, { ...family, all: true }), aborted.promise]);
  } finally {
    ended.removeEventListener('abort', abort);
  }
}
