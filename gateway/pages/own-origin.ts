import { GatewayError } from '../error-reply.ts';
import type { Exchange } from '../exchange.ts';

/**
 * Refuses a request that a script of the page itself did not make. Browsers tell which page asks in `Sec-Fetch-Site` and
 * `Origin`, which no script can set. Names of ports of the sandbox are `same-site` and refused like any other.
 * @param host the Host as the client sent it
 * @throws {GatewayError} 403 `cross_origin`
 */
export function checkOwnOrigin({ headers, method }: Exchange, host: string): void {
  const only = (name: string) => {
    const values = valuesOf(headers.forward, name);
    return values.length === 1 ? values[0]! : null;
  };
  // A script, not a document, an image, a frame or a worker.
  const isByScript = only('sec-fetch-site') === 'same-origin' && only('sec-fetch-dest') === 'empty';
  const reads = method === 'GET' || method === 'HEAD';
  const hasOrigin = valuesOf(headers.forward, 'origin').length > 0;
  const isOwn = hasOrigin ? isOriginOf(only('origin'), host) : reads;
  if (!isByScript || !isOwn) {
    throw new GatewayError(403, 'cross_origin', 'Only the page itself may call this');
  }
}

/** Destinations for which a browser would give a reply of the agent the origin of the pages. */
const workerDestinations = new Set(['serviceworker', 'sharedworker', 'worker']);

/**
 * Root in a sandbox can replace the agent, whose name is the origin of the pages too: its documents get no origin, and
 * its scripts cannot become workers.
 * @returns fields to add to the agent's reply, a flat list
 * @throws {GatewayError} 404 for the script of a worker
 */
export function isolateFromPages({ headers }: Exchange): string[] {
  const destinations = valuesOf(headers.forward, 'sec-fetch-dest');
  if (destinations.length === 0 || destinations.every((destination) => destination === 'empty')) return [];
  if (destinations.some((destination) => workerDestinations.has(destination.toLowerCase()))) {
    throw new GatewayError(404, 'not_found', 'The agent serves no workers');
  }
  return ['Content-Security-Policy', 'sandbox', 'X-Content-Type-Options', 'nosniff'];
}

function valuesOf(flat: string[], wanted: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < flat.length; i += 2) if (flat[i]!.toLowerCase() === wanted) values.push(flat[i + 1]!);
  return values;
}

/** Name and port are compared, not the scheme: TLS may end at a proxy, and `Sec-Fetch-Site` compares it. */
function isOriginOf(origin: string | null, host: string): boolean {
  const [, scheme, authority] = /^(https?):\/\/([a-z0-9.:-]+)$/.exec(origin ?? '') ?? [];
  if (!scheme || !authority) return false;
  const standard = scheme === 'https' ? ':443' : ':80';
  const plain = (text: string) => (text.endsWith(standard) ? text.slice(0, -standard.length) : text);
  return plain(authority) === plain(host.toLowerCase());
}
