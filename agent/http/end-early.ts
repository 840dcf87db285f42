import type { IncomingMessage, ServerResponse } from 'node:http';

/** How long a client may continue to send the rest of a body. */
const lingerMs = 10_000;

/**
 * Replies before the request's body was read. The rest of the body is read and dropped for a while, because an
 * immediate close would reset the connection, and a client that is still sending would lose the reply.
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
