import { setTimeout as delay } from 'node:timers/promises';
import { type HostView, pauseSandboxesOn, readHosts, setDraining } from '../../../db/hosts/host-drains.ts';
import type { Orm } from '../../../db/orm.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { OperatorError, reportProgress } from './operator-command.ts';

/** The interval at which a drain checks the running sandboxes. */
const pollMs = 1000;
/** A sandbox that still runs this long after the request to pause is asked again. */
const askAgainMs = 60_000;

/** Begins or ends the drain of a host. @throws {OperatorError} when there is no such host */
export async function changeDraining(orm: Orm, hostId: string, draining: boolean): Promise<void> {
  if (!(await setDraining(orm.em, hostId, draining))) throw new OperatorError(`There is no host ${hostId}`);
}

/**
 * Reports the running sandboxes whenever they change, and with `wait` ends when none is left. With `pause` it also
 * pauses sandboxes that were starting when it began.
 */
export async function untilDrained(
  orm: Orm,
  hostId: string,
  { pause, wait }: { pause: boolean; wait: boolean },
): Promise<void> {
  const asked = new Map<SandboxId, number>();
  let reported = '';
  for (;;) {
    if (pause) {
      for (const [id, atMs] of asked) if (performance.now() - atMs > askAgainMs) asked.delete(id);
      for (const id of await pauseSandboxesOn(orm.em, hostId, asked.keys())) {
        asked.set(id, performance.now());
      }
    }
    const { sandboxes, state } = await readHost(orm, hostId);
    if (state === 'ready') throw new OperatorError(`The drain of ${hostId} was ended by another operator`);
    const line = formatProgress(sandboxes);
    if (line !== reported) reportProgress(`${hostId}: ${line}`);
    reported = line;
    if (!wait || busyCount(sandboxes) === 0) return;
    await delay(pollMs);
  }
}

/** Sandboxes that need the processes of their host. */
function busyCount({ paused: _, ...busy }: HostView['sandboxes']): number {
  return Object.values(busy).reduce((sum, amount) => sum + amount, 0);
}

function formatProgress(sandboxes: HostView['sandboxes']): string {
  const counts = Object.entries(sandboxes).map(([status, amount]) => `${amount} ${status}`);
  return counts.length === 0 ? 'no sandboxes' : counts.sort().join(', ');
}

/** @throws {OperatorError} when there is no such host */
export async function readHost(orm: Orm, hostId: string): Promise<HostView> {
  const [host] = await readHosts(orm.em, hostId);
  if (!host) throw new OperatorError(`There is no host ${hostId}`);
  return host;
}
