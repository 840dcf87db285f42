import { setTimeout as delay } from 'node:timers/promises';
import type { RunningPlatform } from '../test/support/running-platform.ts';
import { type GroupUse, platformUse } from './process-groups.ts';
import { holdAgainst, type Row } from './table.ts';

const idleSeconds = Number(process.env.BENCH_IDLE_SECONDS ?? 60);

/** The percentage of a core that each part of the platform uses without requests. @param goal for all parts */
export async function idleRows(platform: RunningPlatform, goal?: number): Promise<Row[]> {
  const supervisor = platform.findPids('ops/local-stack/start.ts')[0]!;
  const sample = () => ({ atMs: performance.now(), groups: platformUse(supervisor, platform.dataDir) });
  const first = sample();
  await delay(idleSeconds * 1000);
  const last = sample();
  const spentMs = (use?: GroupUse) => (use ? use.cpuMs + use.endedCpuMs : 0);
  const percentage = (ms: number) => (100 * ms) / (last.atMs - first.atMs);
  const unit = '% of a core';
  const parts = [...last.groups].map(([name, use]) => ({
    measure: `idle: ${name} (${use.processes}, ${use.residentMib.toFixed(0)} MiB)`,
    share: percentage(spentMs(use) - spentMs(first.groups.get(name))),
  }));
  const all = parts.reduce((sum, { share }) => sum + share, 0);
  return [
    { measure: 'idle: all', value: all.toFixed(1), unit, ...(goal && { goal: holdAgainst(all, goal, unit) }) },
    ...parts
      .sort((a, b) => b.share - a.share)
      .map(({ measure, share }) => ({ measure, value: share.toFixed(2), unit })),
  ];
}
