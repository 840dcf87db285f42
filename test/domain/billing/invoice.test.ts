import {
  computeTotals,
  includedUsageLines,
  projectUsage,
  prorationLines,
  subscriptionLine,
  type UsageSum,
  usageLines,
} from '../../../domain/billing/invoice.ts';
import { seededRandom } from './seeded-random.ts';

const used = (description: string, amount: string, perUnit: number, unitPrice: string): UsageSum => ({
  ...{ description, amount, perUnit, unitPrice },
});

test('each price of usage has a line, which is rounded once, and the sums add the shown amounts', () => {
  const sums = [
    used('CPU', '7200500', 1000, '0.000014'),
    used('Memory', '1024000', 1024 * 1000, '0.0000045'),
    used('Storage', '0', 1000, '0.05'),
    used('Traffic', String(1024 ** 3 / 8), 1024 ** 3, '0.05'),
  ];
  const lines = [subscriptionLine('Pro plan', '49.00'), ...usageLines(sums, 'USD')];
  expect(lines.map(({ type, quantity, amount }) => [type, quantity, amount])).toEqual([
    ['subscription', '1', '49.00'],
    // 0.100807
    ['usage', '7200.5', '0.10'],
    ['usage', '1', '0.00'],
    // 0.00625
    ['usage', '0.125', '0.01'],
  ]);
  expect(computeTotals(lines, '0.19', 'USD')).toEqual({ subtotal: '49.11', taxAmount: '9.33', totalAmount: '58.44' });
});

test('lines add up exactly for any usage, and each is its exact cost rounded to the cent', () => {
  const random = seededRandom(5);
  const kinds = [
    [1000, 14n],
    [1024 * 1000, 45n],
    [1024 ** 3, 50_000n],
  ] as const;
  for (let i = 0; i < 500; i++) {
    const sums = kinds.map(([perUnit, price]) => {
      const unitPrice = (Number(price) / 1e6).toFixed(6);
      return used('x', String(1 + random.integer(2 ** 50)), perUnit, unitPrice);
    });
    const lines = usageLines(sums, 'USD');
    const cents = lines.map(({ amount }) => BigInt(amount.replace('.', '')));
    const total = cents.reduce((sum, each) => sum + each, 0n);
    const { subtotal, taxAmount, totalAmount } = computeTotals(lines, '0.0725', 'USD');
    expect(BigInt(subtotal.replace('.', ''))).toBe(total);
    expect(BigInt(totalAmount.replace('.', ''))).toBe(total + BigInt(taxAmount.replace('.', '')));
    for (const [index, { amount, perUnit }] of sums.entries()) {
      // In millionths of the smallest unit.
      const exact = BigInt(amount) * kinds[index]![1] * 100n;
      const shown = cents[index]! * 1_000_000n * BigInt(perUnit);
      const off = shown > exact ? shown - exact : exact - shown;
      expect(2n * off).toBeLessThanOrEqual(1_000_000n * BigInt(perUnit));
    }
  }
});

test('usage on a free plan is shown and costs nothing', () => {
  const lines = usageLines([used('CPU', '7200500', 1000, '0.000014')], 'USD');
  const all = [...lines, ...includedUsageLines('Hobby', lines, 'USD')];
  expect(all.map(({ amount }) => amount)).toEqual(['0.10', '-0.10']);
  expect(computeTotals(all, '0.19', 'USD').totalAmount).toBe('0.00');
  expect(includedUsageLines('Hobby', [], 'USD')).toEqual([]);
});

test('a change of plan is a charge and a credit', () => {
  const lines = prorationLines({ old: 'Pro', new: 'Team' }, { charge: '124.50', credit: '24.50' }, 'USD');
  expect(lines.map(({ description, amount }) => [description, amount])).toEqual([
    ['Rest of the period on the Team plan', '124.50'],
    ['Unused time of the Pro plan', '-24.50'],
  ]);
  expect(computeTotals(lines, '0', 'USD').totalAmount).toBe('100.00');
  const fromFree = prorationLines({ old: 'Hobby', new: 'Pro' }, { charge: '24.50', credit: '0.00' }, 'USD');
  expect(fromFree.map(({ amount }) => amount)).toEqual(['24.50']);
});

test('a projection extrapolates the usage, except in the first hour and after the end', () => {
  const period = { startMs: 0, endMs: 100 * 3_600_000 };
  expect(projectUsage('10.00', period, 25 * 3_600_000)).toBe('40.000000');
  expect(projectUsage('10.00', period, 1000)).toBe('10.00');
  expect(projectUsage('10.00', period, period.endMs)).toBe('10.00');
});
