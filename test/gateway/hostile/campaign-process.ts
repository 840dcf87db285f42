import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from '@jest/globals';
import { type CampaignResult, maxCpuMs } from './campaign.ts';

/** Runs a campaign in its own process, because the test runner must not slow its clients down. */
export async function playCampaignApart(rounds: number, seed: number, blockRounds: number): Promise<CampaignResult> {
  const program = path.join(import.meta.dirname, '../programs/hostile-campaign.ts');
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [program, ...[rounds, seed, blockRounds].map(String)],
    {
      env: { ...process.env, NODE_OPTIONS: '' },
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  return JSON.parse(stdout);
}

/** The requirements for every campaign, regardless of its length. */
export function expectUnharmed(result: CampaignResult): void {
  expect(result).toMatchObject({ exits: 0, hangs: [], faults: [] });
  const { cpuMs, sockets, open } = result.afterwards;
  expect({ sockets, open }).toEqual({
    sockets: 0,
    open: open.map(() => ({ connections: 0, sandboxes: 0, clients: 0 })),
  });
  expect(cpuMs).toBeLessThanOrEqual(maxCpuMs(result.afterwards));
}
