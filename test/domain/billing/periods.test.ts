import { nextChargeAt } from '../../../domain/billing/dunning.ts';
import { type BillingInterval, period, periodAt } from '../../../domain/billing/periods.ts';
import { prorate } from '../../../domain/billing/proration.ts';
import { seededRandom } from './seeded-random.ts';

const at = (text: string) => Date.parse(text);
const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
const starts = (anchor: string, count: number, interval: BillingInterval = 'month') =>
  Array.from({ length: count }, (_, index) => day(period(at(anchor), interval, index).startMs));

test('periods of the 31st end on the last day of shorter months, and return to the 31st', () => {
  expect(starts('2027-01-31T10:00:00Z', 14)).toEqual([
    ...['2027-01-31', '2027-02-28', '2027-03-31', '2027-04-30', '2027-05-31', '2027-06-30', '2027-07-31', '2027-08-31'],
    ...['2027-09-30', '2027-10-31', '2027-11-30', '2027-12-31', '2028-01-31', '2028-02-29'],
  ]);
});

test('periods of the 29th and 30th respect leap years', () => {
  expect(starts('2027-12-29T00:00:00Z', 4)).toEqual(['2027-12-29', '2028-01-29', '2028-02-29', '2028-03-29']);
  expect(starts('2028-12-30T00:00:00Z', 4)).toEqual(['2028-12-30', '2029-01-30', '2029-02-28', '2029-03-30']);
});

test('a yearly period of 29 February ends on 28 February, except in leap years', () => {
  expect(starts('2028-02-29T12:00:00Z', 6, 'year')).toEqual([
    ...['2028-02-29', '2029-02-28', '2030-02-28', '2031-02-28', '2032-02-29', '2033-02-28'],
  ]);
});

test('2100 is not a leap year', () => {
  expect(starts('2100-01-31T00:00:00Z', 2)).toEqual(['2100-01-31', '2100-02-28']);
});

test('each moment of forty years is in one period, which begins at the end of the previous one', () => {
  const random = seededRandom(3);
  for (let i = 0; i < 2000; i++) {
    const anchor = at('2020-01-01T00:00:00Z') + random.integer(4 * 366 * 86_400_000);
    const moment = anchor + random.integer(40 * 366 * 86_400_000);
    for (const interval of ['month', 'year'] as const) {
      const found = periodAt(anchor, interval, moment);
      expect(found.startMs).toBeLessThanOrEqual(moment);
      expect(found.endMs).toBeGreaterThan(moment);
      expect(period(anchor, interval, found.index + 1).startMs).toBe(found.endMs);
      expect(periodAt(anchor, interval, found.startMs).index).toBe(found.index);
      expect(periodAt(anchor, interval, found.endMs - 1).index).toBe(found.index);
    }
  }
});

test('the time of day of the anchor stays in UTC, regardless of daylight saving time', () => {
  const { startMs, endMs } = period(at('2027-02-28T23:30:00.123Z'), 'month', 1);
  expect([startMs, endMs].map((ms) => new Date(ms).toISOString())).toEqual([
    ...['2027-03-28T23:30:00.123Z', '2027-04-28T23:30:00.123Z'],
  ]);
});

test('a change in the middle of a period costs half of the difference', () => {
  const april = period(at('2027-04-01T00:00:00Z'), 'month', 0);
  const half = prorate({ old: '49.00', new: '249.00', currency: 'USD' }, april, at('2027-04-16T00:00:00Z'));
  expect(half).toEqual({ credit: '24.50', charge: '124.50', due: '100.00' });
  const first = prorate({ old: '49.00', new: '249.00', currency: 'USD' }, april, april.startMs);
  expect(first.due).toBe('200.00');
  const last = prorate({ old: '49.00', new: '249.00', currency: 'USD' }, april, april.endMs);
  expect(last).toEqual({ credit: '0.00', charge: '0.00', due: '0.00' });
  expect(() => prorate({ old: '1.00', new: '2.00', currency: 'USD' }, april, april.endMs + 1)).toThrow(RangeError);
});

test('a change to a more expensive plan never refunds money', () => {
  const random = seededRandom(4);
  const anchor = at('2027-01-31T00:00:00Z');
  for (let i = 0; i < 2000; i++) {
    const [a, b] = [random.integer(100_000), random.integer(100_000)];
    const [old, dearer] = [Math.min(a, b), Math.max(a, b)].map((cents) => (cents / 100).toFixed(2)) as [string, string];
    const within = periodAt(anchor, 'month', anchor + random.integer(3 * 366 * 86_400_000));
    const moment = within.startMs + random.integer(within.endMs - within.startMs);
    const { due, credit, charge } = prorate({ old, new: dearer, currency: 'USD' }, within, moment);
    expect(Number(due)).toBeGreaterThanOrEqual(0);
    expect(Number(credit)).toBeLessThanOrEqual(Number(old));
    expect(Number(charge)).toBeLessThanOrEqual(Number(dearer));
  }
});

test('a failed charge is retried after 1, 3, 5 and 7 days, and then no more', () => {
  const first = at('2027-02-27T00:00:00Z');
  const days = [0, 1, 2, 3, 4].map((attempts) => day(nextChargeAt(first, attempts)!));
  expect(days).toEqual(['2027-02-27', '2027-02-28', '2027-03-02', '2027-03-04', '2027-03-06']);
  expect(nextChargeAt(first, 5)).toBeNull();
});
