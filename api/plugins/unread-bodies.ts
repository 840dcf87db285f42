import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';

/**
 * After a refusal, the rest of the body is discarded for this time and up to this size. Then the connection is closed.
 */
const lingerMs = 1000;
const lingerBytes = 1024 * 1024;
const pollMs = 50;

/**
 * Ends the connection of a request that was answered before its body has arrived, so that the API never has to read a
 * refused body. The connection stays open for a moment so that the caller can read the reply. An immediate close would
 * reset the connection.
 */
export const unreadBodies = fp(
  async (app) => {
    app.addHook('onSend', async (request, reply) => closeWhenUnread(request, reply));
  },
  { name: 'unread-bodies' },
);

/** Also for replies that run no hook. */
export function closeWhenUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (!hasUnreadBody(request.raw)) return;
  reply.header('connection', 'close');
  lingerBeforeClose(request.raw.socket);
}

function hasUnreadBody(request: IncomingMessage): boolean {
  if (request.complete !== false) return false;
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

/** Node calls `destroySoon` after it has written a reply with `Connection: close`. */
function lingerBeforeClose(socket: Socket): void {
  socket.destroySoon = () => {
    const readBefore = socket.bytesRead;
    const endsAt = Date.now() + lingerMs;
    socket.end();
    discard(socket);
    const poll = setInterval(() => {
      if (Date.now() >= endsAt || socket.bytesRead - readBefore > lingerBytes) socket.destroy();
    }, pollMs);
    socket.once('close', () => clearInterval(poll));
  };
}

/** Discards the rest without parsing it, because parsing a one-byte chunk costs as much as a large one. */
function discard(socket: Socket): void {
  socket.removeAllListeners('data');
  socket.on('data', () => undefined);
  socket.resume();
}
