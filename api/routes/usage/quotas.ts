import type { EntityManager } from '@mikro-orm/postgresql';
import { z } from 'zod';
import { readMonthlyUse } from '../../../db/usage/metered-quotas.ts';
import type { QuotaAllocation } from '../../../db/usage/quota-allocation.entity.ts';
import { findActiveAllocation } from '../../../db/usage/quota-allocations.ts';
import type { QuotaRequest } from '../../../db/usage/quota-request.entity.ts';
import {
  allocationStatuses,
  type Quota,
  type QuotaHolder,
  quotaMonth,
  quotaRequestStatuses,
} from '../../../domain/usage/quotas.ts';
import { anyUser, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const limitAmount = () => z.number().min(0).max(1e12);
const count = () => z.int().min(0).max(1_000_000_000_000_000);
const concurrent = () => z.int().min(0).max(2_147_483_647);

const of = (unit: string) => `${unit}; null: not limited by this quota`;

const requestId = 'qtr-9ypjhn8d3fkq6w2mzx5v';

/** The six quota fields of a reply. */
const shown = {
  cpu_seconds_monthly: count().nullable().describe(of('Seconds of one processor in a month')),
  ram_gb_seconds: limitAmount().nullable().describe(of('GB of memory × seconds in a month')),
  sandbox_storage_gb_seconds: limitAmount().nullable().describe(of('GB of sandbox storage × seconds in a month')),
  traffic_gb_seconds: limitAmount().nullable().describe(of('GB transferred in a month')),
  template_storage_gb: limitAmount().nullable().describe(of('GB of template images')),
  concurrent_sandboxes: concurrent().nullable().describe('Concurrent sandboxes; null and 0: not limited by this quota'),
};

/** A limit of a request body. Null: no limit. 0 is as not given, because typed clients send it for an unset field. */
const given = <T extends z.ZodType<number>>(limit: T) =>
  z.preprocess((value) => (value === 0 ? undefined : value), limit.nullish()).optional();

/** The six quota fields of a request body. All are optional. */
export const quotaFields = {
  cpu_seconds_monthly: given(count()),
  ram_gb_seconds: given(limitAmount()),
  sandbox_storage_gb_seconds: given(limitAmount()),
  traffic_gb_seconds: given(limitAmount()),
  template_storage_gb: given(limitAmount()),
  concurrent_sandboxes: concurrent().nullish().describe('Null and 0: not limited by this quota'),
};

/** A limit that must be in the body. Null and 0: no limit. */
const required = <T extends z.ZodType<number>>(limit: T) => limit.nullable().transform((value) => value || null);

/** The body that creates or changes a quota request. */
export const quotaRequestBody = z.object({
  ...quotaFields,
  cpu_seconds_monthly: required(count()),
  template_storage_gb: required(limitAmount()),
  reason: z.string().trim().min(1).max(2000),
});

type QuotaBody = { [name in keyof typeof quotaFields]?: number | null | undefined };

const names = {
  cpu_seconds_monthly: 'cpuSecondsMonthly',
  ram_gb_seconds: 'ramGbSeconds',
  sandbox_storage_gb_seconds: 'sandboxStorageGbSeconds',
  traffic_gb_seconds: 'trafficGbSeconds',
  template_storage_gb: 'templateStorageGb',
  concurrent_sandboxes: 'concurrentSandboxes',
} as const satisfies { [field in keyof typeof quotaFields]: keyof Quota };
const fields = Object.keys(names) as (keyof typeof names)[];

/** Every field of a quota. Absent fields mean no limit. */
export function toQuota(body: QuotaBody): Quota {
  return Object.fromEntries(fields.map((field) => [names[field], body[field] ?? null])) as unknown as Quota;
}

/** The quota fields that are present in a body. Null removes a limit. */
export function toQuotaChange(body: QuotaBody): Partial<Quota> {
  return Object.fromEntries(
    fields.filter((field) => body[field] !== undefined).map((field) => [names[field], body[field]]),
  );
}

export const allocationSchema = z
  .object({
    allocation_id: z.string(),
    account_id: z.string(),
    user_id: z
      .string()
      .nullable()
      .describe('The limited user; null: the quota limits the account, all its users together'),
    allocated_by_user_id: z.string(),
    ...shown,
    status: z.enum(allocationStatuses).describe('Only an active allocation applies'),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'QuotaAllocation' });

export const quotaRequestSchema = z
  .object({
    request_id: z.string().meta({ examples: [requestId] }),
    user_id: z.string(),
    account_id: z.string(),
    ...shown,
    reason: z.string().meta({ examples: ['A larger test matrix'] }),
    status: z.enum(quotaRequestStatuses),
    reviewed_by: z.string().nullable(),
    reviewed_at: time().nullable(),
    review_notes: z.string().nullable(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'QuotaRequest' });

export const allocationPath = z.object({ allocation_id: z.string().describe('`qal-…`') });
export const quotaRequestPath = z.object({
  request_id: z.string().meta({ example: requestId }).describe('`qtr-…`'),
});

export function presentAllocation(allocation: QuotaAllocation): z.output<typeof allocationSchema> {
  return {
    allocation_id: allocation.allocationId,
    account_id: allocation.accountId,
    user_id: allocation.userId ?? null,
    allocated_by_user_id: allocation.allocatedByUserId,
    ...presentQuota(allocation),
    status: allocation.status,
    created_at: allocation.createdAt,
    updated_at: allocation.updatedAt,
  };
}

export function presentQuotaRequest(request: QuotaRequest): z.output<typeof quotaRequestSchema> {
  return {
    request_id: request.requestId,
    user_id: request.userId,
    account_id: request.accountId,
    ...presentQuota(request),
    reason: request.reason,
    status: request.status,
    reviewed_by: request.reviewedBy ?? null,
    reviewed_at: request.reviewedAt ?? null,
    review_notes: request.reviewNotes ?? null,
    created_at: request.createdAt,
    updated_at: request.updatedAt,
  };
}

function presentQuota(quota: QuotaAllocation | QuotaRequest) {
  return {
    cpu_seconds_monthly: quota.cpuSecondsMonthly ?? null,
    ram_gb_seconds: quota.ramGbSeconds ?? null,
    sandbox_storage_gb_seconds: quota.sandboxStorageGbSeconds ?? null,
    traffic_gb_seconds: quota.trafficGbSeconds ?? null,
    template_storage_gb: quota.templateStorageGb ?? null,
    concurrent_sandboxes: quota.concurrentSandboxes ?? null,
  };
}

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
      const { accountId, userId } = requireCaller(request);
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
