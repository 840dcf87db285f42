import fp from 'fastify-plugin';
import { Histogram } from 'prom-client';
import { z } from 'zod';
import { type Orm, poolCounts } from '../../db/orm.ts';
import { readPlatformFigures } from '../../db/upkeep/platform-figures.ts';
import { PlatformGauges } from '../../platform/monitoring/platform-gauges.ts';
import { createProcessRegistry } from '../../platform/monitoring/process-metrics.ts';
import { createTemporalGauge } from '../../platform/monitoring/temporal-gauge.ts';
import { operator } from '../access.ts';
import type { Api, ReadinessCheck } from '../dependencies.ts';
import { failures } from '../schemas/replies.ts';

/**
 * Measures requests and serves `GET /metrics` to operators, who use an API key of a user with the role `admin`.
 * `collectMetrics` gives the same text for the separate metrics port.
 */
export const metrics = fp<{ orm: Orm; temporal: ReadinessCheck | undefined }>(
  async (app, { orm, temporal }) => {
    const registry = createProcessRegistry(() => poolCounts(orm));
    const figures = new PlatformGauges(
      registry,
      () => readPlatformFigures(orm.em),
      (error) => app.log.warn({ err: error }, 'the state of the platform could not be read for the metrics'),
    );
    if (temporal) createTemporalGauge(registry, temporal.check);
    app.decorate('collectMetrics', async () => {
      await figures.refresh();
      return registry.metrics();
    });
    const durations = new Histogram({
      name: 'http_request_duration_seconds',
      help: 'Time from the request to the end of the reply',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers: [registry],
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
        description:
          'In the text format of Prometheus: requests, rows by state, queues, hosts. Send the key of a user with the ' +
          'role `admin`.',
        response: {
          200: { description: 'Metrics', content: { 'text/plain': { schema: z.string() } } },
          ...failures('admin_required'),
        },
      },
      handler: async (_request, reply) => {
        return reply.type(registry.contentType).send(await app.collectMetrics());
      },
    });
  },
  { name: 'metrics', dependencies: ['access'] },
);
