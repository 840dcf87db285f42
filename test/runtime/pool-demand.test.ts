import { expect, test } from '@jest/globals';
import { PoolDemand } from '../../runtime/warm-pool.ts';

const minute = 60_000;

test('a pool has its smallest size until more concurrent creates arrive, and then their number', () => {
  const demand = new PoolDemand({ least: 2, most: 16 });
  expect(demand.size(0)).toBe(2);
  demand.note(1000);
  demand.note(11_000);
  demand.note(21_000);
  expect(demand.size(22_000)).toBe(2);
  for (let claim = 0; claim < 7; claim += 1) demand.note(minute + claim * 700);
  expect(demand.size(minute + 6000)).toBe(7);
});

test('it never has more than its largest size, and forgets a burst after ten minutes', () => {
  const demand = new PoolDemand({ least: 1, most: 8 });
  for (let claim = 0; claim < 10_000; claim += 1) demand.note(claim);
  expect(demand.size(10_000)).toBe(8);
  expect(demand.size(10_000 + 9 * minute)).toBe(8);
  expect(demand.size(10_000 + 11 * minute)).toBe(1);
});

test('a minimum above the maximum is the size', () => {
  expect(new PoolDemand({ least: 30, most: 16 }).size(0)).toBe(30);
});
