import type { FastifyReply } from 'fastify';

/**
 * Calls back once, when the reply was sent or its connection is gone. Fastify's `onResponse` hooks do not run if the
 * caller disconnects in the middle of a body.
 */
export function onRequestEnd(reply: FastifyReply, callback: () => void): void {
  let hasEnded = false;
  const end = () => {
    if (hasEnded) return;
    hasEnded = true;
    callback();
  };
  reply.raw.once('finish', end).once('close', end);
}
