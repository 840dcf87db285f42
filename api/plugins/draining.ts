import fp from 'fastify-plugin';
import { onRequestEnd } from '../request-end.ts';

/**
 * Counts requests in progress, so that a stopping process knows when it has sent the last reply. Idle connections do
 * not count. The HTTP server alone would wait for them.
 */
export const draining = fp(
  async (app) => {
    let underWay = 0;
    let waiting: (() => void)[] = [];
    app.addHook('onRequest', async (_request, reply) => {
      underWay++;
      onRequestEnd(reply, () => {
        underWay--;
        if (underWay > 0) return;
        for (const resolve of waiting) resolve();
        waiting = [];
      });
    });
    app.decorate('drained', () => {
      return underWay === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve));
    });
  },
  { name: 'draining' },
);
