import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { loadPlans } from '../../../db/plans.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'plans-'));
afterAll(() => fs.rmSync(dir, { recursive: true }));

const seeds = JSON.parse(fs.readFileSync(path.resolve(import.meta.dirname, '../../../db/seeds/plans.json'), 'utf8'));

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
])('%s is refused', (_what, change) => {
  expect(() => load((plans) => Object.assign(plans[1]!, change))).toThrow();
});
