import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sandbox } from '../db/entities/sandbox.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import { sandboxesBoundTo, sandboxesOnHost } from '../db/repositories/hosts.ts';
import { SandboxLifeRepository } from '../db/repositories/sandbox-life.ts';
import { isOver } from '../domain/sandbox-state.ts';
import type { SandboxDriver, SandboxSpec } from '../runtime/driver.ts';
import type { SandboxFacts } from './sandbox-facts.ts';

export interface ReconcilingDriver extends SandboxDriver {
  /** Removes what is on this machine for sandboxes that are not in the list. */
  reconcile(knownSandboxIds: string[]): Promise<unknown>;
}

/**
 * Brings what really runs on this host and what the platform believes together, when the host starts: removes what
 * nobody owns, gives back the room of lives that are over, and tells workflows what happened while nobody looked.
 * @param lastAlive when this host was last known to be up, and so when its sandboxes stood still if it restarted
 */
export async function reconcileHost(deps: {
  orm: Orm;
  plans: PlanCatalog;
  driver: ReconcilingDriver;
  facts: SandboxFacts;
  hostId: string;
  lastAlive: Date;
  specOf: (row: Sandbox) => SandboxSpec;
  logger: Logger;
}): Promise<void> {
  const rows = await sandboxesOnHost(deps.orm.em, deps.hostId);
  const living = rows.filter((row) => !isOver(row.status));
  await deps.driver.reconcile(living.map((row) => row.sandboxId));
  const life = new SandboxLifeRepository(deps.orm.em, deps.plans);
  for (const row of rows.filter((each) => isOver(each.status))) {
    await deps.driver.stop(row.sandboxId);
    await deps.driver.remove(row.sandboxId);
    await life.releaseRoom(row.sandboxId);
  }
  for (const row of living) await compare(row, deps);
  deps.logger.info({ sandboxes: living.length, cleaned: rows.length - living.length }, 'host reconciled');
}

/**
 * On a host that was given up: waits until the platform has done so with each sandbox. Before that, some would still
 * look as if they ran here.
 */
export async function whenGivenUp(orm: Orm, hostId: string, logger: Logger): Promise<void> {
  logger.warn('this host was given up while it was away; its sandboxes are cleaned up');
  while ((await sandboxesBoundTo(orm.em, hostId)).length > 0) await delay(250);
}

async function compare(
  row: Sandbox,
  deps: { driver: SandboxDriver; facts: SandboxFacts; lastAlive: Date; specOf: (row: Sandbox) => SandboxSpec },
): Promise<void> {
  // In every other state an activity of its workflow is under way and is tried again by itself.
  if (row.status !== 'running' && row.status !== 'pausing' && row.status !== 'paused') return;
  const found = await deps.driver.inspect(row.sandboxId);
  if (found.state === 'running' || found.state === 'paused') {
    // A pause or a resume was given up while this host was away, though it had been done; the row is what counts.
    if (row.status === 'paused') await deps.driver.pause(row.sandboxId);
    else if (row.status === 'running' && found.state === 'paused') await deps.driver.resume(deps.specOf(row));
    return;
  }
  // Processes that end by themselves leave a record of how; a host that goes down takes them without one.
  if (found.exit && row.status !== 'paused') void deps.facts.exited(found.exit);
  else void deps.facts.hostRestarted(row.sandboxId, deps.lastAlive);
}
