import type { UsageType } from './usage-types.ts';
import type { UsageWindow } from './usage-window.ts';

/**
 * What one user of an account may use. Null: no limit for the user; the account's plan still applies. 0 means the same
 * for `concurrentSandboxes`.
 */
export interface Quota {
  /** Each month. */
  cpuSecondsMonthly: number | null;
  ramGbSeconds: number | null;
  sandboxStorageGbSeconds: number | null;
  trafficGbSeconds: number | null;
  templateStorageGb: number | null;
  concurrentSandboxes: number | null;
}

/** The fields of a quota that limit what is metered in a month, and the type of usage that each limits. */
const meteredQuotas = [
  { field: 'cpuSecondsMonthly', usageType: 'cpu_seconds', name: 'processor time' },
  { field: 'ramGbSeconds', usageType: 'ram_gb_seconds', name: 'memory' },
  { field: 'sandboxStorageGbSeconds', usageType: 'sandbox_storage_gb_seconds', name: 'sandbox storage' },
  { field: 'trafficGbSeconds', usageType: 'traffic_gb', name: 'traffic' },
] as const satisfies readonly { field: keyof Quota; usageType: UsageType; name: string }[];

type MeteredQuota = Pick<Quota, (typeof meteredQuotas)[number]['field']>;

/** A part of a quota of which a user is warned. */
const warnedAt = 0.8;

/** The month (UTC) in which metered quotas count what is used at `now`. */
export function quotaMonth(now: Date): UsageWindow {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return { start: new Date(Date.UTC(year, month)), end: new Date(Date.UTC(year, month + 1)) };
}

/** The parts of a quota that are used up, or nearly. @param used by type, in units of the quota; absent: nothing */
export function quotasReached(
  quota: MeteredQuota,
  used: { readonly [type in UsageType]?: number },
): { field: keyof MeteredQuota; name: string; usedUp: boolean }[] {
  return meteredQuotas.flatMap(({ field, usageType, name }) => {
    const limit = quota[field];
    const amount = used[usageType] ?? 0;
    if (limit === null || amount < limit * warnedAt) return [];
    return [{ field, name, usedUp: amount >= limit }];
  });
}

/** An allocation counts while it is `active`; a user has at most one such. */
export const allocationStatuses = ['active', 'superseded', 'revoked'] as const;
export type AllocationStatus = (typeof allocationStatuses)[number];

export const quotaRequestStatuses = ['pending', 'approved', 'denied', 'withdrawn'] as const;
export type QuotaRequestStatus = (typeof quotaRequestStatuses)[number];

/** Whether a user with so many concurrent sandboxes may have one more. @param limit of their quota; 0 and null: none */
export function allowsOneMoreSandbox(limit: number | null, active: number): boolean {
  return limit === null || limit === 0 || active < limit;
}
