import { expect, test } from '@jest/globals';
import { RequestComparison } from '../gateway/differential/compare-requests.ts';
import { compareRandomRequests, compareRandomResponses } from '../gateway/differential/random-runs.ts';

const rounds = 40;

test('60,000 generated responses, split at every place, mean the same to the gateway and to llhttp', () => {
  for (let round = 0; round < rounds; round += 1) {
    const { findings, accepted } = compareRandomResponses(round, 1500);
    expect(findings).toEqual([]);
    expect(accepted).toBeGreaterThan(100);
  }
}, 1_800_000);

test('40,000 generated requests reach the sandbox as llhttp understands them, or not at all', async () => {
  const comparison = await RequestComparison.start();
  try {
    for (let round = 0; round < rounds; round += 1) {
      const { findings, passed } = await compareRandomRequests(comparison, round, 1000);
      expect(findings).toEqual([]);
      expect(passed).toBeGreaterThan(50);
    }
  } finally {
    await comparison.stop();
  }
}, 1_800_000);
