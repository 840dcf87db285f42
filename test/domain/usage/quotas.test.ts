import { accountLimit, allowsOneMoreSandbox, quotasReached } from '../../../domain/usage/quotas.ts';

test.each([
  [null, 1000, true],
  [0, 1000, true],
  [1, 0, true],
  [1, 1, false],
  [3, 2, true],
  [3, 4, false],
])('with a limit of %p concurrent sandboxes and %d of them, one more is allowed: %p', (limit, active, allowed) => {
  expect(allowsOneMoreSandbox(limit, active)).toBe(allowed);
});

test.each([
  [10, null, 'plan', 10],
  [10, 0, 'plan', 10],
  [10, 10, 'plan', 10],
  [10, 11, 'plan', 10],
  [10, 9, 'account_quota', 9],
  [10, 0.5, 'account_quota', 0.5],
])('an account with %d of its plan and a quota of %p is limited by its %s to %d', (ofPlan, ofQuota, of, limit) => {
  expect(accountLimit(ofPlan, ofQuota)).toEqual({ of, limit });
});

test('a monthly quota is reached at four fifths and used up at the whole; null and 0 are never reached', () => {
  const none = { cpuSecondsMonthly: null, ramGbSeconds: 0, sandboxStorageGbSeconds: null, trafficGbSeconds: null };
  const used = { cpu_seconds: 8, ram_gb_seconds: 100, traffic_gb: 7.9 };
  const reached = (quota: { [field in keyof typeof none]?: number }) =>
    quotasReached({ ...none, ...quota }, used).map(({ field, usedUp }) => [field, usedUp]);
  expect(reached({})).toEqual([]);
  expect(reached({ cpuSecondsMonthly: 8, trafficGbSeconds: 10 })).toEqual([['cpuSecondsMonthly', true]]);
  expect(reached({ cpuSecondsMonthly: 10, trafficGbSeconds: 7.9 })).toEqual([
    ['cpuSecondsMonthly', false],
    ['trafficGbSeconds', true],
  ]);
  expect(reached({ sandboxStorageGbSeconds: 1 })).toEqual([]);
});
