import fp from 'fastify-plugin';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { z } from 'zod';
import type { Orm } from '../../db/orm.ts';
import { countEntries } from '../../db/repositories/outbox.ts';
import { operator } from '../access.ts';
import type { Api } from '../dependencies.ts';
import { failures } from '../schemas/failures.ts';

/** Measures requests and serves `GET /metrics` to operators: an API key of a user with the role `admin`. */
export const metrics = fp<{ orm: Orm }>(
  async (app, { orm }) => {
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    const durations = new Histogram({
      name: 'http_request_duration_seconds',
      help: 'Time from the request to the end of the reply',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers: [registry],
    });
    new Gauge({
      name: 'outbox_entries',
      help: 'Starts and signals of workflows that wait to be sent (waiting), or that failed too often (dead)',
      labelNames: ['state'],
      registers: [registry],
      async collect() {
        for (const [state, count] of Object.entries(await countEntries(orm.em))) this.set({ state }, count);
      },
    });
    app.addHook('onResponse', async (request, reply) => {
      const labels = { method: request.method, route: request.routeOptions.url ?? 'none', status: reply.statusCode };
      durations.observe(labels, reply.elapsedTime / 1000);
    });

    (app as unknown as Api).route({
      method: 'GET',
      url: '/metrics',
      config: { access: operator('none'), quiet: true },
      schema: {
        operationId: 'getMetrics',
        tags: ['Operation'],
        summary: 'Metrics for Prometheus',
        response: {
          200: { description: 'Metrics', content: { 'text/plain': { schema: z.string() } } },
          ...failures('admin_required'),
        },
      },
      handler: async (_request, reply) => {
        return reply.type(registry.contentType).send(await registry.metrics());
      },
    });
  },
  { name: 'metrics', dependencies: ['access'] },
);
