import { setTimeout as delay } from 'node:timers/promises';
import type { FaultyPlatform, PartName } from './faulty-platform.ts';

/** Shorter than a lease. */
const hangMs = 4000;
const parts: PartName[] = ['api', 'host', 'worker', 'temporal', 'postgres'];

/** The faults of each process that takes part in a direct start, pause or resume. */
export const directFaults = parts.flatMap((part) => (['kill', 'hang'] as const).map((kind) => [part, kind] as const));

export async function fault(platform: FaultyPlatform, part: PartName, kind: 'kill' | 'hang'): Promise<void> {
  if (kind === 'kill') {
    await platform.kill(part);
    await platform.up(part);
    return;
  }
  const pid = platform.pid(part);
  process.kill(pid, 'SIGSTOP');
  await delay(hangMs);
  process.kill(pid, 'SIGCONT');
}
