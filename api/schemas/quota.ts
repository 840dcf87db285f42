import { z } from 'zod';
import type { QuotaAllocation } from '../../db/usage/quota-allocation.entity.ts';
import type { QuotaRequest } from '../../db/usage/quota-request.entity.ts';
import { allocationStatuses, type Quota, quotaRequestStatuses } from '../../domain/usage/quotas.ts';
import { time } from './fields.ts';

const amount = () => z.number().min(0).max(1e12);
const count = () => z.int().min(0).max(1_000_000_000_000_000);
const concurrent = () => z.int().min(0).max(2_147_483_647);

const of = (unit: string) => `${unit}; null: not limited by this quota`;

const requestId = 'qtr-9ypjhn8d3fkq6w2mzx5v';

/** The six quota fields of a reply. */
const shown = {
  cpu_seconds_monthly: count().nullable().describe(of('Seconds of one processor in a month')),
  ram_gb_seconds: amount().nullable().describe(of('GB of memory × seconds in a month')),
  sandbox_storage_gb_seconds: amount().nullable().describe(of('GB of sandbox storage × seconds in a month')),
  traffic_gb_seconds: amount().nullable().describe(of('GB transferred in a month')),
  template_storage_gb: amount().nullable().describe(of('GB of template images')),
  concurrent_sandboxes: concurrent().nullable().describe('Concurrent sandboxes; null and 0: not limited by this quota'),
};

/** A limit of a request body. Null: no limit. 0 is as not given, because typed clients send it for an unset field. */
const given = <T extends z.ZodType<number>>(limit: T) =>
  z.preprocess((value) => (value === 0 ? undefined : value), limit.nullish()).optional();

/** The six quota fields of a request body. All are optional. */
export const quotaFields = {
  cpu_seconds_monthly: given(count()),
  ram_gb_seconds: given(amount()),
  sandbox_storage_gb_seconds: given(amount()),
  traffic_gb_seconds: given(amount()),
  template_storage_gb: given(amount()),
  concurrent_sandboxes: concurrent().nullish().describe('Null and 0: not limited by this quota'),
};

/** A limit that must be in the body. Null and 0: no limit. */
const required = <T extends z.ZodType<number>>(limit: T) => limit.nullable().transform((value) => value || null);

/** The body that creates or changes a quota request. */
export const quotaRequestBody = z.object({
  ...quotaFields,
  cpu_seconds_monthly: required(count()),
  template_storage_gb: required(amount()),
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
export function quotaOf(body: QuotaBody): Quota {
  return Object.fromEntries(fields.map((field) => [names[field], body[field] ?? null])) as unknown as Quota;
}

/** The quota fields that are present in a body. Null removes a limit. */
export function quotaChangeOf(body: QuotaBody): Partial<Quota> {
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
