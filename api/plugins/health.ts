import fp from 'fastify-plugin';
import { z } from 'zod';
import { anyone } from '../access.ts';
import type { Api, ReadinessCheck } from '../dependencies.ts';

const limitMs = 2_000;
/** Probes send a request to each replica every few seconds, from one or several addresses. */
const requestsPerMinute = 6000;

const readiness = z.object({
  status: z.enum(['ready', 'unavailable']),
  checks: z.record(z.string(), z.enum(['ok', 'unavailable'])).describe('By name, for example postgres and temporal'),
});

/** `GET /healthz`: the process is up. `GET /readyz`: its dependencies are reachable. Neither has the envelope. */
export const health = fp<{ checks: ReadinessCheck[] }>(
  async (app, { checks }) => {
    const shared = checks.map(sharedCheck);
    (app as unknown as Api).route({
      method: 'GET',
      url: '/healthz',
      config: { access: anyone({ requestsPerMinute }), quiet: true },
      schema: {
        operationId: 'getHealth',
        tags: ['Operation'],
        summary: 'Whether the process is up',
        description: 'Does not check Postgres and Temporal; `/readyz` does.',
        response: { 200: z.object({ status: z.literal('ok') }).describe('It is up') },
      },
      handler: async () => ({ status: 'ok' as const }),
    });

    (app as unknown as Api).route({
      method: 'GET',
      url: '/readyz',
      config: { access: anyone({ requestsPerMinute }), quiet: true },
      schema: {
        operationId: 'getReadiness',
        tags: ['Operation'],
        summary: 'Whether Postgres and Temporal are reachable',
        description: 'Replies 503 while one of them is not reachable. The reply has the state of each.',
        response: {
          200: readiness.describe('All are reachable'),
          503: readiness.describe('At least one is not reachable'),
        },
      },
      handler: async (request, reply) => {
        const results = await Promise.all(
          shared.map(async ({ name, check }) => {
            try {
              await check();
              return [name, 'ok'] as const;
            } catch (error) {
              request.log.warn({ err: error, check: name }, 'not ready');
              return [name, 'unavailable'] as const;
            }
          }),
        );
        const ready = results.every(([, state]) => state === 'ok');
        return reply
          .code(ready ? 200 : 503)
          .send({ status: ready ? 'ready' : 'unavailable', checks: Object.fromEntries(results) });
      },
    });
  },
  { name: 'health', dependencies: ['access'] },
);

/** A check with a time limit. Concurrent probes share one check, so many probes cost no more than one. */
function sharedCheck({ name, check }: ReadinessCheck): ReadinessCheck {
  let underWay: Promise<void> | null = null;
  return {
    name,
    check() {
      underWay ??= withinLimit(check()).finally(() => {
        underWay = null;
      });
      return underWay;
    },
  };
}

async function withinLimit(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  });
  try {
    await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
