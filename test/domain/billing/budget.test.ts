import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type BudgetTerms,
  computeRemaining,
  exactSum,
  percentageUsed,
  restricts,
  type ThresholdReport,
  thresholdsToReport,
  toThresholdType,
} from '../../../domain/billing/budget.ts';

const hour = 3_600_000;
const day = 24 * hour;
const periodStartMs = Date.UTC(2026, 0, 1);
const nowMs = periodStartMs + 10 * day;
const terms: BudgetTerms = {
  amount: '100.00',
  limitType: 'hard',
  isActive: true,
  alertThresholds: [80, 50, 100].map((percent) => ({ percent, enabled: true })),
  amountSetAtMs: periodStartMs - day,
};
const report = (percent: number, atMs: number, start = periodStartMs): ThresholdReport => ({
  ...{ percent, atMs, periodStartMs: start },
});
const due = (used: string, reports: ThresholdReport[] = [], more: Partial<BudgetTerms> = {}, at = nowMs) =>
  thresholdsToReport({ ...terms, ...more }, used, reports, { periodStartMs, nowMs: at });

describe('thresholds', () => {
  test.each([
    ['0', []],
    ['49.999999999999', []],
    ['50', [50]],
    ['80.01', [50, 80]],
    ['99.99999', [50, 80]],
    ['100', [50, 80, 100]],
    ['123456789', [50, 80, 100]],
  ])('of 100.00, %s reaches %p', (used, expected) => expect(due(used)).toEqual(expected));

  test('each is reported once per period', () => {
    const reports = [report(50, nowMs - 3 * day), report(80, nowMs - hour)];
    expect(due('85', reports)).toEqual([]);
    expect(due('100', reports)).toEqual([100]);
  });

  test('a new period reports them again, even shortly after the last report', () => {
    const earlier = report(50, periodStartMs - 1, periodStartMs - 31 * day);
    expect(due('60', [earlier], {}, periodStartMs + 1)).toEqual([50]);
  });

  test('a change of the amount reports them again, not within 24 hours', () => {
    const reported = [report(50, nowMs - day + 1)];
    const changed = { amountSetAtMs: nowMs - hour };
    expect(due('60', reported, changed)).toEqual([]);
    expect(due('60', reported, changed, nowMs + 1)).toEqual([50]);
    // It stays below the threshold of the new amount.
    expect(due('60', reported, { ...changed, amount: '200.00' }, nowMs + 1)).toEqual([]);
    // The amount was changed before the report.
    expect(due('60', reported, { amountSetAtMs: nowMs - 2 * day }, nowMs + 1)).toEqual([]);
  });

  test('those that are switched off, and those of an inactive budget, are not reported', () => {
    expect(due('90', [], { alertThresholds: [{ percent: 80, enabled: false }] })).toEqual([]);
    expect(due('90', [], { isActive: false })).toEqual([]);
    expect(due('90', [], { alertThresholds: [] })).toEqual([]);
  });

  test('in any order of usage, amounts and times, no threshold is reported twice in 24 hours of a period', () => {
    const step = fc.record({
      afterHours: fc.integer({ min: 0, max: 40 }),
      addCents: fc.integer({ min: 0, max: 4000 }),
      amount: fc.option(fc.integer({ min: 1, max: 300 }), { nil: null }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let [at, cents, current] = [periodStartMs, 0, terms];
        const reports: ThresholdReport[] = [];
        for (const { afterHours, addCents, amount } of steps) {
          at += afterHours * hour;
          cents += addCents;
          if (amount !== null) current = { ...current, amount: `${amount}.00`, amountSetAtMs: at };
          const newest = [50, 80, 100].flatMap((percent) => reports.findLast((each) => each.percent === percent) ?? []);
          const used = (cents / 100).toFixed(2);
          for (const percent of thresholdsToReport(current, used, newest, { periodStartMs, nowMs: at })) {
            const last = newest.find((each) => each.percent === percent);
            expect(Number(used) * 100).toBeGreaterThanOrEqual(percent * Number(current.amount) - 1e-6);
            expect(at - (last?.atMs ?? at - day)).toBeGreaterThanOrEqual(day);
            reports.push(report(percent, at));
          }
        }
      }),
    );
  });
});

describe('restriction', () => {
  test.each([
    ['99.999999999999999999', false],
    ['100', true],
    ['100.000000000000000001', true],
  ])('a hard limit of 100.00 with %s used restricts: %p', (used, expected) => {
    expect(restricts(terms, used)).toBe(expected);
  });

  test('a soft limit and an inactive budget restrict nothing', () => {
    expect(restricts({ ...terms, limitType: 'soft' }, '1000')).toBe(false);
    expect(restricts({ ...terms, isActive: false }, '1000')).toBe(false);
  });

  test('thresholds have no effect on it', () => {
    expect(restricts({ ...terms, alertThresholds: [] }, '100')).toBe(true);
  });
});

test('percentages and the rest are rounded down, so that 100 and 0 mean the whole amount', () => {
  expect([percentageUsed('99.9999', '100.00'), computeRemaining('99.9999', '100.00')]).toEqual(['99.99', '0.000100']);
  expect([percentageUsed('100', '100.00'), computeRemaining('100', '100.00')]).toEqual(['100.00', '0.000000']);
  expect([percentageUsed('0.000001', '1000000000.00'), computeRemaining('150', '100.00')]).toEqual([
    '0.00',
    '0.000000',
  ]);
});

test('all of the amount is more than a warning', () => {
  expect([1, 99, 100].map(toThresholdType)).toEqual(['warning', 'warning', 'exceeded']);
});

test('costs are added exactly', () => {
  expect(exactSum(['0.1', '0.2', '0.000000000000000000000000000001'])).toBe('0.300000000000000000000000000001');
  expect(exactSum([])).toBe('0');
});
