import type { AccountId, UserId } from '../ids.ts';
import type { UsageType } from './types.ts';
import type { UsageWindow } from './window.ts';

/** Whom a quota limits: one user, or all users of the account together. */
export interface QuotaHolder {
  accountId: AccountId;
  /** Null: the account. */
  userId: UserId | null;
}

/**
 * The limits of one user, or of a whole account. Null and 0: no limit, and the account's plan still applies. (Typed
 * clients send 0 for a field that is not set.)
 */
export interface Quota {
  /** CPU seconds per month. */
  cpuSecondsMonthly: number | null;
  ramGbSeconds: number | null;
  sandboxStorageGbSeconds: number | null;
  trafficGbSeconds: number | null;
  templateStorageGb: number | null;
  concurrentSandboxes: number | null;
}

/** The fields of a quota that limit monthly usage, and the type of usage that each field limits. */
const meteredQuotas = [
  { field: 'cpuSecondsMonthly', usageType: 'cpu_seconds', name: 'processor time' },
  { field: 'ramGbSeconds', usageType: 'ram_gb_seconds', name: 'memory' },
  { field: 'sandboxStorageGbSeconds', usageType: 'sandbox_storage_gb_seconds', name: 'sandbox storage' },
  { field: 'trafficGbSeconds', usageType: 'traffic_gb', name: 'traffic' },
] as const satisfies readonly { field: keyof Quota; usageType: UsageType; name: string }[];

type MeteredQuota = Pick<Quota, (typeof meteredQuotas)[number]['field']>;

/** Users are warned when they have used this part of a quota. */
const warnedAt = 0.8;

/** The month (UTC) of `now`. Monthly quotas count the usage in it. */
export function quotaMonth(now: Date): UsageWindow {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return { start: new Date(Date.UTC(year, month)), end: new Date(Date.UTC(year, month + 1)) };
}

/** The quotas that are used up, or nearly. @param used by type, in units of the quota; absent: nothing was used */
export function quotasReached(
  quota: MeteredQuota,
  used: { readonly [type in UsageType]?: number },
): { field: keyof MeteredQuota; name: string; usedUp: boolean }[] {
  return meteredQuotas.flatMap(({ field, usageType, name }) => {
    const limit = quota[field];
    const amount = used[usageType] ?? 0;
    if (limit === null || limit === 0 || amount < limit * warnedAt) return [];
    return [{ field, name, usedUp: amount >= limit }];
  });
}

/** An allocation counts while it is `active`. A user has at most one active allocation, and so has an account. */
export const allocationStatuses = ['active', 'superseded', 'revoked'] as const;
export type AllocationStatus = (typeof allocationStatuses)[number];

export const quotaRequestStatuses = ['pending', 'approved', 'denied', 'withdrawn'] as const;
export type QuotaRequestStatus = (typeof quotaRequestStatuses)[number];

/**
 * Whether a user with `active` concurrent sandboxes may have one more. @param limit of the quota; 0 and null: no limit
 */
export function allowsOneMoreSandbox(limit: number | null, active: number): boolean {
  return limit === null || limit === 0 || active < limit;
}

/** The limit of an account: that of its plan, or that of its own quota if it is lower. @param ofQuota 0 and null: none */
export function accountLimit(ofPlan: number, ofQuota: number | null): { of: 'plan' | 'account_quota'; limit: number } {
  const isLower = ofQuota !== null && ofQuota !== 0 && ofQuota < ofPlan;
  return isLower ? { of: 'account_quota', limit: ofQuota } : { of: 'plan', limit: ofPlan };
}
