import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { loadPlans } from '../../../db/billing/plans.ts';
import type { DiskRates } from '../../../domain/billing/plans.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'plans-'));
afterAll(() => fs.rmSync(dir, { recursive: true }));

const diskRates = { readMbPerSecond: 100, writeMbPerSecond: 100, readsPerSecond: 1000, writesPerSecond: 1000 };
const seeds = JSON.parse(fs.readFileSync(path.resolve(import.meta.dirname, '../../../db/billing/plans.json'), 'utf8'));

function load(change: (plans: Record<string, unknown>[]) => void) {
  const plans = structuredClone(seeds);
  change(plans);
  const file = path.join(dir, 'plans.json');
  fs.writeFileSync(file, JSON.stringify(plans));
  return loadPlans(file);
}

test('the seed file has the four plans, the first of them free', () => {
  const { all, currency } = loadPlans();
  expect(all.map(({ planName }) => planName)).toEqual(['hobby', 'pro', 'team', 'enterprise']);
  expect([all[0]!.isFree, all[0]!.priceAmount, currency]).toEqual([true, '0.00', 'USD']);
});

test('a paid plan has higher disk rates than the one below, and a file without rates has no limit', () => {
  const rates = loadPlans().all.map((plan) => plan.maxDiskRatesPerSandbox!);
  for (const [at, each] of rates.entries()) {
    expect(
      Object.entries(each).filter(([name, rate]) => rate <= (rates[at - 1]?.[name as keyof DiskRates] ?? 0)),
    ).toEqual([]);
  }
  const without = load((plans) => delete plans[1]!.maxDiskRatesPerSandbox);
  expect(without.get('pro').maxDiskRatesPerSandbox).toBeUndefined();
});

test('prices have the digits of their currency', () => {
  const inYen = load((plans) => {
    for (const plan of plans) Object.assign(plan, { currency: 'JPY', priceAmount: plan.isFree ? '0' : '4900' });
  });
  expect(inYen.get('pro').priceAmount).toBe('4900');
  expect(load((plans) => Object.assign(plans[1]!, { priceAmount: '49' })).get('pro').priceAmount).toBe('49.00');
});

test.each([
  ['a price below a cent', { priceAmount: '49.001' }],
  ['a negative price', { priceAmount: '-1.00' }],
  ['a price that is a number', { priceAmount: 49 }],
  ['a price that is far too large', { priceAmount: '9999999999.00' }],
  ['a free plan with a price', { isFree: true }],
  ['another currency than the other plans', { currency: 'EUR' }],
  ['a currency that is none', { currency: 'usd' }],
  ['another interval', { billingInterval: 'week' }],
  ['the name of another plan', { planName: 'hobby' }],
  ['a disk rate of zero', { maxDiskRatesPerSandbox: { ...diskRates, readsPerSecond: 0 } }],
  ['a disk rate beyond every disk', { maxDiskRatesPerSandbox: { ...diskRates, writeMbPerSecond: 1e9 } }],
  ['disk rates of which one is missing', { maxDiskRatesPerSandbox: { ...diskRates, readsPerSecond: undefined } }],
])('%s is refused', (_what, change) => {
  expect(() => load((plans) => Object.assign(plans[1]!, change))).toThrow();
});
