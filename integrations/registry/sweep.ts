import http from 'node:http';

/**
 * Asks the supervisor of the embedded registry to sweep it: to make it read-only, remove the blobs that belong to no
 * image, and make it writable again. Resolves when that is done.
 * @param socket the socket of the supervisor
 */
export async function sweepEmbeddedRegistry(socket: string, signal: AbortSignal): Promise<void> {
  const reply = await new Promise<http.IncomingMessage>((resolve, reject) => {
    http.request({ socketPath: socket, method: 'POST', path: '/sweep', signal }, resolve).on('error', reject).end();
  });
  reply.resume();
  if (reply.statusCode !== 204) throw new Error(`The registry could not be swept: ${reply.statusCode}`);
}
