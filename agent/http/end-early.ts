import type { IncomingMessage, ServerResponse } from 'node:http';

/** How long a client may go on sending the rest of a body. */
const lingerMs = 10_000;

/**
 * Replies before the request's body has been read. The rest is read and dropped for a while: closing at once would
 * reset the connection, and a client that still sends would lose the reply.
 */
export function endEarly(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: Record<string, string | number>,
  body: string,
): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  res.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
  res.end(body);
  if (req.complete || req.destroyed) return;
  const deadline = setTimeout(() => req.destroy(), lingerMs).unref();
  req.once('close', () => clearTimeout(deadline));
  req.on('error', () => {
    // The client left while its body was being dropped.
  });
  req.resume();
}
