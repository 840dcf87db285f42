import { expect, test } from '@jest/globals';
import { array, assert, constantFrom, integer, property, record } from 'fast-check';
import { latePeriods, lateUsage, type PricedUsage } from '../../../domain/billing/late-usage.ts';

const used = (amount: number, unitPrice = '0.09', usageType: PricedUsage['usageType'] = 'traffic_gb'): PricedUsage => ({
  ...{ usageType, unitPrice, amount: String(amount) },
});
/** The sums for each type and price. */
function summed(parts: readonly PricedUsage[]): PricedUsage[] {
  const keys = new Map(parts.map((each) => [`${each.usageType} ${each.unitPrice}`, each]));
  return [...keys.values()].map(({ usageType, unitPrice }) => {
    const same = parts.filter((each) => each.usageType === usageType && each.unitPrice === unitPrice);
    return { usageType, unitPrice, amount: String(same.reduce((sum, { amount }) => sum + BigInt(amount), 0n)) };
  });
}
const total = (parts: readonly PricedUsage[], usageType: string) =>
  parts.filter((each) => each.usageType === usageType).reduce((sum, { amount }) => sum + BigInt(amount), 0n);

test('usage that was recorded after the invoice is late, separately for each kind and price', () => {
  const now = [used(5, '0.09'), used(7, '0.10'), used(100, '0.01', 'cpu_seconds'), used(3, '1', 'ram_gb_seconds')];
  expect(lateUsage(now, [used(2, '0.09'), used(100, '0.01', 'cpu_seconds')])).toEqual([
    used(3, '0.09'),
    used(7, '0.10'),
    used(3, '1', 'ram_gb_seconds'),
  ]);
  expect(lateUsage(now, now)).toEqual([]);
});

test('usage that was billed before it was recorded at another price is not billed again', () => {
  expect(lateUsage([used(5, '0.10')], [used(5, '0.09')])).toEqual([]);
  expect(lateUsage([used(8, '0.10')], [used(5, '0.09')])).toEqual([used(3, '0.10')]);
  // Removed usage is not refunded.
  expect(lateUsage([used(1)], [used(5)])).toEqual([]);
});

test('the sum of all invoices is the whole usage, in any order of recording', () => {
  const event = record({
    period: integer({ min: 0, max: 5 }),
    lateBy: integer({ min: 0, max: latePeriods }),
    amount: integer({ min: 1, max: 2 ** 40 }),
    usageType: constantFrom('cpu_seconds' as const, 'traffic_gb' as const),
    unitPrice: constantFrom('0.09', '0.10'),
  });
  assert(
    property(array(event, { maxLength: 60 }), (events) => {
      const invoices: { period: number; part: PricedUsage }[] = [];
      for (let period = 0; period <= 5 + latePeriods; period += 1) {
        for (let of = period; of >= Math.max(0, period - latePeriods); of -= 1) {
          const known = events.filter((each) => each.period === of && each.period + each.lateBy <= period);
          const now = summed(known.map(({ amount, unitPrice, usageType }) => used(amount, unitPrice, usageType)));
          const billed = invoices.filter((each) => each.period === of).map(({ part }) => part);
          invoices.push(...lateUsage(now, billed).map((part) => ({ period: of, part })));
        }
      }
      const all = events.map(({ amount, unitPrice, usageType }) => used(amount, unitPrice, usageType));
      for (const usageType of ['cpu_seconds', 'traffic_gb']) {
        expect(
          total(
            invoices.map(({ part }) => part),
            usageType,
          ),
        ).toBe(total(all, usageType));
      }
    }),
    { numRuns: 500 },
  );
});
