import fp from 'fastify-plugin';

/**
 * Counts requests under way, so that a process that stops knows when the last has been answered. Connections on which
 * nothing was ever asked do not count: the HTTP server alone would wait for them.
 */
export const draining = fp(
  async (app) => {
    let underWay = 0;
    let waiting: (() => void)[] = [];
    app.addHook('onRequest', async () => {
      underWay++;
    });
    app.addHook('onResponse', async () => {
      underWay--;
      if (underWay > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    });
    app.decorate('drained', () => {
      return underWay === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve));
    });
  },
  { name: 'draining' },
);
