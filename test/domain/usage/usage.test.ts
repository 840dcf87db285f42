import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type MeteredLife, meteredAfter, periodsUntil, type UsagePeriod } from '../../../domain/usage/periods.ts';
import { splitWindow } from '../../../domain/usage/window.ts';

const hourMs = 3_600_000;
const size = { cpuCount: 2, memoryMb: 512, storageGb: 10 };
const noon = Date.UTC(2026, 4, 4, 12);

describe('the periods of a life', () => {
  test('cover a running phase with cores, memory and disk, split at whole hours', () => {
    const life: MeteredLife = { ...size, phaseKind: 'running', meteredUntil: new Date(noon - 1000) };
    const periods = periodsUntil(life, new Date(noon + 2500));
    expect(periods.map(({ type, start, end, amount }) => [type, +start - noon, +end - noon, amount])).toEqual([
      ['cpu_seconds', -1000, 0, 2000],
      ['ram_gb_seconds', -1000, 0, 512_000],
      ['sandbox_storage_gb_seconds', -1000, 0, 10_000],
      ['cpu_seconds', 0, 2500, 5000],
      ['ram_gb_seconds', 0, 2500, 1_280_000],
      ['sandbox_storage_gb_seconds', 0, 2500, 25_000],
    ]);
  });

  test('cover a pause only with the disk, and nothing outside of a phase', () => {
    const paused: MeteredLife = { ...size, phaseKind: 'paused', meteredUntil: new Date(noon) };
    expect(periodsUntil(paused, new Date(noon + 1)).map(({ type }) => type)).toEqual(['sandbox_storage_gb_seconds']);
    expect(periodsUntil({ ...paused, phaseKind: null }, new Date(noon + 1))).toEqual([]);
    expect(periodsUntil({ ...paused, meteredUntil: null }, new Date(noon + 1))).toEqual([]);
  });

  test('never go back, and cover at most a year after a clock that jumps by centuries', () => {
    expect(meteredAfter(new Date(noon), new Date(noon - 1))).toEqual(new Date(noon));
    expect(+meteredAfter(new Date(noon), new Date(noon + 200 * 366 * 24 * hourMs)) - noon).toBe(366 * 24 * hourMs);
  });
});

/** A step in a sandbox's life. `afterMs` may be negative: the clock was set back. */
const step = fc.record({
  afterMs: fc.oneof(
    fc.integer({ min: 0, max: 5 * hourMs }),
    fc.integer({ min: 0, max: 999 }),
    fc.integer({ min: -2 * hourMs, max: 0 }),
  ),
  to: fc.constantFrom('running' as const, 'paused' as const, null, 'same' as const),
  /** The write is repeated after a crash. */
  twice: fc.boolean(),
});

/** The store: append-only, and idempotent by type and start. */
class Events {
  readonly #events = new Map<string, UsagePeriod>();
  add(periods: UsagePeriod[]): void {
    for (const period of periods) {
      const key = `${period.type} ${+period.start}`;
      if (!this.#events.has(key)) this.#events.set(key, period);
    }
  }
  get all(): UsagePeriod[] {
    return [...this.#events.values()];
  }
}

test('random lives with jumps of the clock and repeated writes: the events of any window equal an independent sum', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 40 }),
      fc.integer({ min: -hourMs, max: 40 * hourMs }),
      fc.integer({ min: 0, max: 60 * hourMs }),
      (steps, windowFrom, windowMs) => {
        const events = new Events();
        let life: MeteredLife = { ...size, phaseKind: null, meteredUntil: null };
        // The independent model: the phase of each interval, on a clock that does not advance while it is set back.
        const stretches: { kind: 'running' | 'paused' | null; from: number; to: number }[] = [];
        let [clock, reached] = [noon, Number.NEGATIVE_INFINITY];
        for (const { afterMs, to, twice } of steps) {
          clock += afterMs;
          const before = life;
          const next = to === 'same' ? before.phaseKind : to;
          if (before.phaseKind || next) {
            if (reached > Number.NEGATIVE_INFINITY && clock > reached) {
              stretches.push({ kind: before.phaseKind, from: reached, to: clock });
            }
            reached = Math.max(reached, clock);
            const until = meteredAfter(before.meteredUntil, new Date(clock));
            for (let times = twice ? 2 : 1; times > 0; times--) events.add(periodsUntil(before, until));
            life = { ...before, phaseKind: next, meteredUntil: until };
          }
        }
        const [from, to] = [noon + windowFrom, noon + windowFrom + windowMs];
        const overlap = (a: number, b: number) => Math.max(0, Math.min(b, to) - Math.max(a, from));
        const ran = stretches.reduce(
          (sum, each) => sum + (each.kind === 'running' ? overlap(each.from, each.to) : 0),
          0,
        );
        const lived = stretches.reduce((sum, each) => sum + (each.kind ? overlap(each.from, each.to) : 0), 0);
        let crossing = 0;
        const recorded: Record<string, number> = { cpu_seconds: 0, ram_gb_seconds: 0, sandbox_storage_gb_seconds: 0 };
        for (const { type, start, end, amount } of events.all) {
          recorded[type]! += (amount * overlap(+start, +end)) / (+end - +start);
          if (Math.floor((+end - 1) / hourMs) !== Math.floor(+start / hourMs)) crossing += 1;
        }
        expect(crossing).toBe(0);
        expect(recorded).toEqual({
          cpu_seconds: 2 * ran,
          ram_gb_seconds: 512 * ran,
          sandbox_storage_gb_seconds: 10 * lived,
        });
      },
    ),
    { numRuns: 500 },
  );
});

test('the parts of a window cover it once, with whole days and hours', () => {
  const dayMs = 24 * hourMs;
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 * dayMs }), fc.integer({ min: 0, max: 5 * dayMs }), (from, lengthMs) => {
      const parts = splitWindow({ start: new Date(noon + from), end: new Date(noon + from + lengthMs) });
      for (const { startMs, endMs } of parts.days) expect([startMs % dayMs, endMs % dayMs]).toEqual([0, 0]);
      for (const { startMs, endMs } of parts.hours) expect([startMs % hourMs, endMs % hourMs]).toEqual([0, 0]);
      for (const { startMs, endMs } of parts.edges) expect(endMs - startMs).toBeLessThan(2 * hourMs);
      const all = [...parts.days, ...parts.hours, ...parts.edges].sort((a, b) => a.startMs - b.startMs);
      let at = noon + from;
      for (const { startMs, endMs } of all) {
        expect(startMs).toBe(at);
        at = endMs;
      }
      expect(at).toBe(noon + from + lengthMs);
    }),
  );
});
