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

/** An allocation counts while it is `active`; a user has at most one such. */
export const allocationStatuses = ['active', 'superseded', 'revoked'] as const;
export type AllocationStatus = (typeof allocationStatuses)[number];

export const quotaRequestStatuses = ['pending', 'approved', 'denied', 'withdrawn'] as const;
export type QuotaRequestStatus = (typeof quotaRequestStatuses)[number];

/** Whether a user with so many concurrent sandboxes may have one more. @param limit of their quota; 0 and null: none */
export function allowsOneMoreSandbox(limit: number | null, active: number): boolean {
  return limit === null || limit === 0 || active < limit;
}
