import { p } from '@mikro-orm/core';

/** The six quota fields of allocations and requests. Null: no limit. */
export const quotaColumns = {
  cpuSecondsMonthly: p.bigint('number').nullable(),
  ramGbSeconds: p.decimal('number').precision(20).scale(6).nullable(),
  sandboxStorageGbSeconds: p.decimal('number').precision(20).scale(6).nullable(),
  trafficGbSeconds: p.decimal('number').precision(20).scale(6).nullable(),
  templateStorageGb: p.decimal('number').precision(20).scale(6).nullable(),
  concurrentSandboxes: p.integer().nullable(),
};
