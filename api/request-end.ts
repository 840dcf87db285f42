import type { FastifyReply } from 'fastify';

/**
 * Calls back once, when the reply has been sent or its connection is gone. Fastify's `onResponse` hooks do not run for
 * a caller who leaves in the middle of a body.
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
