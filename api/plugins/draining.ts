import type { FastifyReply } from 'fastify';
import fp from 'fastify-plugin';

/**
 * Counts requests in progress, so that a stopping process knows when it has sent the last reply. Idle connections do
 * not count. The HTTP server alone would wait for them.
 */
export const draining = fp(
  async (app) => {
    let inProgress = 0;
    let waiting: (() => void)[] = [];
    app.addHook('onRequest', async (_request, reply) => {
      inProgress++;
      onRequestEnd(reply, () => {
        inProgress--;
        if (inProgress > 0) return;
        for (const resolve of waiting) resolve();
        waiting = [];
      });
    });
    app.decorate('drained', () => {
      return inProgress === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve));
    });
  },
  { name: 'draining' },
);

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
