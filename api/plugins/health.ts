import fp from 'fastify-plugin';
import { z } from 'zod';
import { behindAfterSeconds } from '../../domain/task-queues.ts';
import type { TaskQueueAge } from '../../platform/temporal/task-queue-ages.ts';
import { anyone } from '../access.ts';
import type { Api, ReadinessCheck } from '../dependencies.ts';

const limitMs = 2_000;
/** Probes send a request to each replica every few seconds, from one or several addresses. */
const requestsPerMinute = 6000;

const readiness = z.object({
  status: z
    .enum(['ready', 'behind', 'unavailable'])
    .describe('`behind`: requests are answered, but work of a queue waits too long for a control worker'),
  checks: z.record(z.string(), z.enum(['ok', 'unavailable'])).describe('By name, for example postgres and temporal'),
  queues: z
    .record(z.string(), z.object({ state: z.enum(['ok', 'behind']), oldest_task_seconds: z.number() }))
    .describe(
      'The queues of the control workers by the work in them: sandboxes, webhooks, images, money, upkeep. Each has the ' +
        'age of its oldest waiting task. Empty while Temporal does not answer',
    ),
});

/** `GET /healthz`: the process is up. `GET /readyz`: its dependencies are reachable. Neither has the envelope. */
export const health = fp<{ checks: ReadinessCheck[]; readTaskQueueAges(): Promise<TaskQueueAge[]> }>(
  async (app, { checks, readTaskQueueAges }) => {
    const shared = checks.map(({ name, check }) => ({ name, check: sharedCheck(check) }));
    const queueAges = sharedCheck(readTaskQueueAges);
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
        description:
          'Replies 503 while one of them is not reachable. The reply has the state of each, and says which queue of ' +
          'the control workers is behind. This does not change the status code, because this process can still serve requests.',
        response: {
          200: readiness.describe('All are reachable'),
          503: readiness.describe('At least one is not reachable'),
        },
      },
      handler: async (request, reply) => {
        const [queues, ...results] = await Promise.all([
          queueAges().then(presentQueues, () => ({})),
          ...shared.map(async ({ name, check }) => {
            try {
              await check();
              return [name, 'ok'] as const;
            } catch (error) {
              request.log.warn({ err: error, check: name }, 'not ready');
              return [name, 'unavailable'] as const;
            }
          }),
        ]);
        const isUp = results.every(([, state]) => state === 'ok');
        const isBehind = Object.values(queues).some(({ state }) => state === 'behind');
        const status = !isUp ? 'unavailable' : isBehind ? 'behind' : 'ready';
        return reply.code(isUp ? 200 : 503).send({ status, checks: Object.fromEntries(results), queues });
      },
    });
  },
  { name: 'health', dependencies: ['access'] },
);

type Readiness = z.output<typeof readiness>;

function presentQueues(ages: readonly TaskQueueAge[]): Readiness['queues'] {
  const queues: Readiness['queues'] = {};
  for (const { work, oldestSeconds } of ages) {
    const seconds = Math.max(Math.round(oldestSeconds), queues[work]?.oldest_task_seconds ?? 0);
    queues[work] = { state: seconds > behindAfterSeconds[work] ? 'behind' : 'ok', oldest_task_seconds: seconds };
  }
  return queues;
}

/** A check with a time limit. Concurrent probes share one check, so many probes cost no more than one. */
function sharedCheck<Result>(check: () => Promise<Result>): () => Promise<Result> {
  let inProgress: Promise<Result> | null = null;
  return () => {
    inProgress ??= withinLimit(check()).finally(() => {
      inProgress = null;
    });
    return inProgress;
  };
}

async function withinLimit<Result>(work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
