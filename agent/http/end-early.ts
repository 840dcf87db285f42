import type { IncomingMessage, ServerResponse } from 'node:http';

/** How long a client may go on sending a body that nobody wants. */
const lingerMs = 10_000;

/**
 * Replies before the request's body has been read. What still comes is read and dropped for a while: a connection
 * closed at once would be reset, and its reply be lost, under a client that is still sending.
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
    // It left while its body was being dropped.
  });
  req.resume();
}
