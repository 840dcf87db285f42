import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { FaultyPlatform } from './faulty-platform.ts';

interface Recorded {
  resource_id: string;
  usage_type: string;
  amount: number;
  duration_ms: number;
  from_ms: number;
  to_ms: number;
}

/**
 * Compares the usage events of every sandbox that ran with the clock of its life, which adds up the same phases in
 * another way: cores for each running millisecond, its disk for each running or paused one, without gaps and
 * duplicates.
 */
export async function wrongUsage(platform: FaultyPlatform): Promise<string[]> {
  const lives = await platform.orm.em.fork().find(Sandbox, { startedAt: { $ne: null } });
  const recorded = await platform.rows<Recorded>(
    `select resource_id, usage_type, sum(amount)::float8 as amount,
            sum(extract(epoch from period_end - period_start))::float8 * 1000 as duration_ms,
            extract(epoch from min(period_start))::float8 * 1000 as from_ms,
            extract(epoch from max(period_end))::float8 * 1000 as to_ms
       from usage_events group by 1, 2`,
  );
  return lives.flatMap((row) => {
    const of = (type: string) =>
      recorded.find((each) => each.resource_id === row.sandboxId && each.usage_type === type);
    const open = row.phaseSince ? row.meteredUntil!.getTime() - row.phaseSince.getTime() : 0;
    const ranMs = row.runningMs + (row.phaseKind === 'running' ? open : 0);
    const livedMs = row.runningMs + row.pausedMs + open;
    const disk = of('sandbox_storage_gb_seconds');
    const wrong: string[] = [];
    const hold = (what: string, found: number, wanted: number) => {
      if (Math.round(found) !== wanted) wrong.push(`${row.name} ${row.status}: ${what} ${found}, not ${wanted}`);
    };
    hold('core-milliseconds', of('cpu_seconds')?.amount ?? 0, row.cpuCount * ranMs);
    hold('MB-milliseconds', of('ram_gb_seconds')?.amount ?? 0, row.memoryMb * ranMs);
    hold('GB-milliseconds', disk?.amount ?? 0, row.storageGb * livedMs);
    if (disk) hold('from the first to the last event, ms', disk.to_ms - disk.from_ms, Math.round(disk.duration_ms));
    return wrong;
  });
}
