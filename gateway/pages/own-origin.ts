import { GatewayError } from '../error-reply.ts';
import type { Exchange } from '../exchange.ts';

/**
 * Refuses a request that was not made by a script of the page. Browsers report the origin of a request in
 * `Sec-Fetch-Site` and `Origin`, and scripts cannot set these fields. Host names of the sandbox's ports are `same-site`
 * and also refused.
 * @param host the unchanged Host of the client
 * @throws {GatewayError} 403 `cross_origin`
 */
export function checkOwnOrigin({ headers, method }: Exchange, host: string): void {
  const only = (name: string) => {
    const values = findFieldValues(headers.forward, name);
    return values.length === 1 ? values[0]! : null;
  };
  // The request was made by a script, and not for a document, an image, a frame or a worker.
  const isByScript = only('sec-fetch-site') === 'same-origin' && only('sec-fetch-dest') === 'empty';
  const reads = method === 'GET' || method === 'HEAD';
  const hasOrigin = findFieldValues(headers.forward, 'origin').length > 0;
  const isOwn = hasOrigin ? isOriginOf(only('origin'), host) : reads;
  if (!isByScript || !isOwn) {
    throw new GatewayError(403, 'cross_origin', 'Only the page itself may call this');
  }
}

/** Destinations for which a browser would give the agent's reply the origin of the pages. */
const workerDestinations = new Set(['serviceworker', 'sharedworker', 'worker']);

/**
 * Isolates replies of the agent from the pages. The agent has the same origin as the pages, and root in a sandbox can
 * replace it. So its documents get no origin, and its scripts cannot become workers.
 * @returns fields to add to the agent's reply, a flat list
 * @throws {GatewayError} 404 for the script of a worker
 */
export function isolateFromPages({ headers }: Exchange): string[] {
  const destinations = findFieldValues(headers.forward, 'sec-fetch-dest');
  if (destinations.length === 0 || destinations.every((destination) => destination === 'empty')) return [];
  if (destinations.some((destination) => workerDestinations.has(destination.toLowerCase()))) {
    throw new GatewayError(404, 'not_found', 'The agent serves no workers');
  }
  return ['Content-Security-Policy', 'sandbox', 'X-Content-Type-Options', 'nosniff'];
}

/** The values of a field in a flat list. @param wanted in lower case */
export function findFieldValues(flat: readonly string[], wanted: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < flat.length; i += 2) if (flat[i]!.toLowerCase() === wanted) values.push(flat[i + 1]!);
  return values;
}

/** Compares only name and port. TLS may end at a proxy, and `Sec-Fetch-Site` already compares the scheme. */
function isOriginOf(origin: string | null, host: string): boolean {
  const [, scheme, authority] = /^(https?):\/\/([a-z0-9.:-]+)$/.exec(origin ?? '') ?? [];
  if (!scheme || !authority) return false;
  const standard = scheme === 'https' ? ':443' : ':80';
  const plain = (text: string) => (text.endsWith(standard) ? text.slice(0, -standard.length) : text);
  return plain(authority) === plain(host.toLowerCase());
}
