import type { EntityManager } from '@mikro-orm/postgresql';
import { z } from 'zod';
import { readMonthlyUse } from '../../../db/usage/metered-quotas.ts';
import { findActiveAllocation } from '../../../db/usage/quota-allocations.ts';
import { type QuotaHolder, quotaMonth } from '../../../domain/usage/quotas.ts';
import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { allocationSchema, presentAllocation } from '../../schemas/quota.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const amount = () => z.number().min(0);

const usedSchema = z.object({
  period_start: time(),
  period_end: time(),
  cpu_seconds: amount(),
  ram_gb_seconds: amount(),
  sandbox_storage_gb_seconds: amount(),
  traffic_gb: amount(),
});

/** `GET /v1/usage/quotas`: the limits of the caller and of the account, with the usage that they limit. */
export function getQuota(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/quotas',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getQuota',
      tags: ['Quotas'],
      summary: 'Read your quota, and that of your account',
      description:
        '`quotas` is your own allocation, `account_quotas` that of the account, which limits all its users together; ' +
        'null: there is none. `used` and `account_used` are the usage since the first of the month (UTC).',
      response: {
        200: envelope(
          z.object({
            quotas: allocationSchema.nullable(),
            used: usedSchema.describe('Your usage of this month (UTC)'),
            account_quotas: allocationSchema.nullable(),
            account_used: usedSchema.nullable().describe('Usage of all users; null if `account_quotas` is null'),
          }),
          'The active allocations, and the usage that they limit',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const now = new Date();
      const { accountId, userId } = callerOf(request);
      const [user, account] = [
        { accountId, userId },
        { accountId, userId: null },
      ];
      const own = await findActiveAllocation(deps.orm.em.fork(), user);
      const ofAccount = await findActiveAllocation(deps.orm.em.fork(), account);
      return success({
        quotas: own && presentAllocation(own),
        used: await readUsed(deps.orm.em, user, now),
        account_quotas: ofAccount && presentAllocation(ofAccount),
        account_used: ofAccount && (await readUsed(deps.orm.em, account, now)),
      });
    },
  });
}

async function readUsed(em: EntityManager, holder: QuotaHolder, now: Date): Promise<z.output<typeof usedSchema>> {
  const used = await readMonthlyUse(em, holder, now);
  const { start, end } = quotaMonth(now);
  return {
    period_start: start,
    period_end: end,
    cpu_seconds: used.cpu_seconds ?? 0,
    ram_gb_seconds: used.ram_gb_seconds ?? 0,
    sandbox_storage_gb_seconds: used.sandbox_storage_gb_seconds ?? 0,
    traffic_gb: used.traffic_gb ?? 0,
  };
}
