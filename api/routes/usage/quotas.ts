import { z } from 'zod';
import { readMonthlyUse } from '../../../db/repositories/metered-quotas.ts';
import { findActiveAllocation } from '../../../db/repositories/quota-allocations.ts';
import { quotaMonth } from '../../../domain/quotas.ts';
import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
import { time } from '../../schemas/fields.ts';
import { allocationSchema, presentAllocation } from '../../schemas/quota.ts';

const amount = () => z.number().min(0);

const usedSchema = z
  .object({
    period_start: time(),
    period_end: time(),
    cpu_seconds: amount(),
    ram_gb_seconds: amount(),
    sandbox_storage_gb_seconds: amount(),
    traffic_gb: amount(),
  })
  .describe('Your usage of this month (UTC); monthly quotas limit it');

/** `GET /v1/usage/quotas`. */
export function getQuota(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/quotas',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getQuota',
      tags: ['Quotas'],
      summary: 'Read your quota',
      description:
        '`quotas` is null if you have no allocation; `used` is your usage since the first of the month ' + '(UTC).',
      response: {
        200: envelope(
          z.object({ quotas: allocationSchema.nullable(), used: usedSchema }),
          '`quotas`: the active allocation; null: only the plan limits you',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const now = new Date();
      const allocation = await findActiveAllocation(deps.orm.em.fork(), callerOf(request).userId);
      const used = await readMonthlyUse(deps.orm.em, callerOf(request), now);
      const { start, end } = quotaMonth(now);
      return success({
        quotas: allocation && presentAllocation(allocation),
        used: {
          period_start: start,
          period_end: end,
          cpu_seconds: used.cpu_seconds ?? 0,
          ram_gb_seconds: used.ram_gb_seconds ?? 0,
          sandbox_storage_gb_seconds: used.sandbox_storage_gb_seconds ?? 0,
          traffic_gb: used.traffic_gb ?? 0,
        },
      });
    },
  });
}
