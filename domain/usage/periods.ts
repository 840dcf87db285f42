import type { UsageType } from './types.ts';

/** The facts that determine a sandbox's usage. */
export interface MeteredLife {
  /** Null: the sandbox is neither running nor paused, and uses nothing. */
  phaseKind: 'running' | 'paused' | null;
  /** Usage is recorded up to this time. Null: the sandbox has not run yet. */
  meteredUntil: Date | null;
  cpuCount: number;
  memoryMb: number;
  storageGb: number;
}

/** The usage of one type from `start` to `end`, at a constant rate. `amount` is in the small unit of the type. */
export interface UsagePeriod {
  type: UsageType;
  start: Date;
  end: Date;
  amount: number;
}

const hourMs = 3_600_000;
/** A limit, so that a clock that jumps by centuries does not make millions of rows. */
const longestGapMs = 366 * 24 * hourMs;

/**
 * The time up to which usage is recorded after a change at `at`. It never moves back. If a clock is set back, no second
 * is recorded twice, and recording continues when the clock has reached the old time again.
 */
export function meteredAfter(meteredUntil: Date | null, at: Date): Date {
  if (!meteredUntil) return at;
  const atMs = Math.min(at.getTime(), meteredUntil.getTime() + longestGapMs);
  return new Date(Math.max(meteredUntil.getTime(), atMs));
}

/** A sandbox's usage per millisecond in its phase, in the small units of the types. */
function listRates({ phaseKind, cpuCount, memoryMb, storageGb }: MeteredLife): [UsageType, number][] {
  const storage: [UsageType, number] = ['sandbox_storage_gb_seconds', storageGb];
  if (phaseKind === null) return [];
  return phaseKind === 'paused' ? [storage] : [['cpu_seconds', cpuCount], ['ram_gb_seconds', memoryMb], storage];
}

/** The usage of a life from the end of its recorded usage to `until`. No period crosses a whole hour (UTC). */
export function periodsUntil(life: MeteredLife, until: Date): UsagePeriod[] {
  if (!life.meteredUntil) return [];
  const rates = listRates(life);
  const periods: UsagePeriod[] = [];
  const endMs = until.getTime();
  for (let startMs = life.meteredUntil.getTime(); startMs < endMs; ) {
    const nextMs = Math.min(endMs, (Math.floor(startMs / hourMs) + 1) * hourMs);
    for (const [type, rate] of rates) {
      periods.push({ type, start: new Date(startMs), end: new Date(nextMs), amount: rate * (nextMs - startMs) });
    }
    startMs = nextMs;
  }
  return periods;
}
