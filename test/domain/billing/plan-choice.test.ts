import { expect, test } from '@jest/globals';
import { loadPlans } from '../../../db/billing/plans.ts';
import { nextChargeAfter } from '../../../domain/billing/dunning.ts';
import { planChoice } from '../../../domain/billing/plan-choice.ts';

const plan = loadPlans().get;

test('a more expensive plan is effective now, a cheaper one and one with other periods later', () => {
  expect(planChoice(plan('hobby'), plan('pro'))).toBe('now');
  expect(planChoice(plan('team'), plan('pro'))).toBe('later');
  expect(planChoice(plan('pro'), plan('pro'))).toBe('keep');
  expect(planChoice(plan('pro'), { ...plan('pro'), planName: 'pro-2' })).toBe('now');
  expect(planChoice(plan('pro'), { ...plan('team'), billingInterval: 'year' })).toBe('later');
});

test('a failed charge is retried on the next of the days 1, 3, 5 and 7', () => {
  const day = 86_400_000;
  const first = Date.UTC(2028, 1, 28);
  expect([0, 1, 2, 3, 4.9, 5, 6].map((days) => nextChargeAfter(first, first + days * day)! - first)).toEqual(
    [1, 3, 3, 5, 5, 7, 7].map((days) => days * day),
  );
  expect(nextChargeAfter(first, first + 7 * day)).toBeNull();
});
