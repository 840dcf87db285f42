import type { Server } from 'node:net';
import { BoundedCounts } from '../domain/bounded-counts.ts';
import { clientKey } from '../domain/client-address.ts';

/** Connections altogether; more are closed as they come. Each costs memory, and idle ones are closed after a while. */
const maxConnections = 5_000;

/**
 * Limits the connections that clients may have open to the API.
 * @param perClient of one address (IPv6: /64); null where a proxy in front makes all of them
 */
export function limitConnections(server: Server, perClient: number | null): void {
  server.maxConnections = maxConnections;
  if (perClient === null) return;
  const counts = new BoundedCounts(perClient, 'connections-of-client');
  server.on('connection', (socket) => {
    const { remoteAddress } = socket;
    const key = remoteAddress && clientKey(remoteAddress);
    if (!key || !counts.tryAdd(key)) socket.destroy();
    else socket.once('close', () => counts.remove(key));
  });
}
