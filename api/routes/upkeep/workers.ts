import { z } from 'zod';
import { AppError } from '../../../domain/errors.ts';
import { controlTaskQueues } from '../../../domain/task-queues.ts';
import { releaseVersion } from '../../../platform/config/release.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const works = Object.keys(controlTaskQueues) as [keyof typeof controlTaskQueues, ...(keyof typeof controlTaskQueues)[]];

const workersSchema = z.object({
  platform_version: z
    .string()
    .meta({ examples: ['0.1.0'] })
    .describe('The release of the API process that replies'),
  task_queues: z.array(
    z.object({
      work: z.enum(works),
      task_queue: z.string().meta({ examples: ['control'] }),
      kind: z.enum(['workflow', 'activity']),
      oldest_task_seconds: z.number().min(0).describe('The age of the oldest waiting task. 0: none waits'),
      pollers: z.int().min(0).describe('Workers that have asked for such tasks in the last minutes'),
    }),
  ),
  worker_versions: z
    .array(
      z.object({
        build_id: z.string().meta({ examples: ['0.1.0'] }),
        status: z
          .enum(['current', 'draining', 'drained', 'inactive'])
          .describe(
            '`current`: new workflows run on it; `draining`: workflows that are pinned to it are open; `drained`: its ' +
              'workers may be stopped; `inactive`: it has never been current',
          ),
        pinned_workflows: z.int().min(0),
        current_since: time().nullable(),
      }),
    )
    .nullable()
    .describe('Of the control workers, newest first. Null: they have no versions (`PLATFORM_WORKER_DEPLOYMENT`)'),
});

/** `GET /v1/admin/workers`. */
export function readWorkers(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/workers',
    config: { access: operator('everything') },
    schema: {
      operationId: 'getWorkers',
      tags: ['Operation'],
      summary: 'Read what Temporal tells about the control workers',
      description:
        'How long tasks wait in each queue of the control workers, how many workers poll it, and the versions of the ' +
        'workers. If Temporal does not answer within some seconds, the reply is 503.',
      response: {
        200: envelope(workersSchema, 'Queues and versions'),
        ...failures('admin_required'),
      },
    },
    handler: async () => {
      const reading = Promise.all([deps.readTaskQueueAges(), deps.readWorkerVersions()]);
      const [ages, versions] = await reading.catch((cause) => {
        throw new AppError('temporarily_unavailable', 'Temporal does not answer now; try again later', { cause });
      });
      return success({
        platform_version: releaseVersion,
        task_queues: ages.map(({ work, kind, oldestSeconds, pollers }) => ({
          ...{ work, task_queue: controlTaskQueues[work], kind, oldest_task_seconds: oldestSeconds, pollers },
        })),
        worker_versions:
          versions?.map(({ buildId, status, pinnedWorkflows, currentSince }) => ({
            ...{ build_id: buildId, status, pinned_workflows: pinnedWorkflows },
            current_since: currentSince === null ? null : new Date(currentSince),
          })) ?? null,
      });
    },
  });
}
