import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sandbox } from '../db/entities/sandbox.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import {
  type RestingSandbox,
  restingSandboxes,
  runningSandboxes,
  sandboxesBoundTo,
  sandboxesOnHost,
} from '../db/repositories/hosts.ts';
import { SandboxLifeRepository } from '../db/repositories/sandbox-life.ts';
import type { SandboxId } from '../domain/ids.ts';
import { isOver } from '../domain/sandbox-state.ts';
import { DriverError, type SandboxDriver, type SandboxInspection, type SandboxSpec } from '../runtime/driver.ts';
import type { HostDriver } from '../runtime/host-driver.ts';
import type { SandboxFacts } from './sandbox-facts.ts';

/** What reconciliation needs of a driver. */
export type ReconcilingDriver = SandboxDriver &
  Pick<HostDriver, 'reconcile' | 'repairLinks' | 'withoutAgent' | 'restartAgent'>;

/** Why a sandbox is reported. `room`: it is frozen and the disk has no room for it. A report for another reason is sent at once. */
type Loss = 'processes' | 'disk' | 'room';

const everyMs = 4000;
/** A workflow has acted on a report long before; if not, it gets the report again. */
const reportAgainAfterMs = 60_000;

/**
 * Compares what runs on this host with what the platform believes: thoroughly when the host starts, and every few
 * seconds from then on. Only sandboxes at rest are compared; in every other state an activity of the workflow is under
 * way and is tried again by itself.
 */
export class HostReconciliation {
  readonly #orm: Orm;
  readonly #plans: PlanCatalog;
  readonly #driver: ReconcilingDriver;
  readonly #facts: SandboxFacts;
  readonly #hostId: string;
  readonly #specOf: (row: Sandbox) => SandboxSpec;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  readonly #reports = new Map<SandboxId, { run: number | null; lost: Loss; sentAtMs: number; underWay: boolean }>();
  #running: Promise<void> | null = null;

  constructor(deps: {
    orm: Orm;
    plans: PlanCatalog;
    driver: ReconcilingDriver;
    facts: SandboxFacts;
    hostId: string;
    specOf: (row: Sandbox) => SandboxSpec;
    logger: Logger;
  }) {
    this.#orm = deps.orm;
    this.#plans = deps.plans;
    this.#driver = deps.driver;
    this.#facts = deps.facts;
    this.#hostId = deps.hostId;
    this.#specOf = deps.specOf;
    this.#logger = deps.logger;
  }

  /**
   * Before the host takes work: removes what nobody owns, gives back the room of lives that are over, and reports what
   * ended while the host was away.
   * @param lastAlive when this host was last known to be up, and so when its sandboxes stood still if it restarted
   */
  async takeOver(lastAlive: Date): Promise<void> {
    const rows = await sandboxesOnHost(this.#orm.em, this.#hostId);
    const living = rows.filter((row) => !isOver(row.status));
    await this.#driver.reconcile(living.map((row) => row.sandboxId));
    const life = new SandboxLifeRepository(this.#orm.em, this.#plans);
    for (const row of rows.filter((each) => isOver(each.status))) {
      await this.#alone(row.sandboxId, async () => {
        await this.#driver.stop(row.sandboxId);
        await this.#driver.remove(row.sandboxId);
        await life.releaseRoom(row.sandboxId);
      });
    }
    for (const row of living) await this.#alone(row.sandboxId, () => this.#bringToRest(row));
    await this.#look(lastAlive);
    this.#logger.info({ sandboxes: living.length, cleaned: rows.length - living.length }, 'host reconciled');
  }

  /** What goes wrong with one sandbox is logged, and does not keep this host from its others. */
  async #alone(sandboxId: SandboxId, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#logger.error({ err: error, sandboxId }, 'a sandbox could not be brought together with its row');
    }
  }

  /** Looks again and again from now on. */
  start(): void {
    this.#running ??= this.#lookOn();
  }

  /** Ends after the look in hand. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** A pause or a resume was given up while this host was away, though it had been done; the row is what counts. */
  async #bringToRest(row: Sandbox): Promise<void> {
    if (row.status !== 'running' && row.status !== 'paused') return;
    const found = await this.#driver.inspect(row.sandboxId);
    const { state } = found;
    if (row.status === 'paused' && state === 'running') await this.#driver.pause(row.sandboxId);
    if (row.status === 'running' && state === 'paused') await this.#goOn(row, found);
    // A host whose record of it was lost knows none of its UDP ports.
    const { udpPorts } = this.#specOf(row);
    if (udpPorts.length > 0 && state !== 'exited' && state !== 'absent') {
      await this.#driver.exposeUdp(row.sandboxId, udpPorts);
    }
  }

  /** On a disk that is full it is not resumed but stays frozen, and its row becomes `paused`. */
  async #goOn(row: Sandbox, found: SandboxInspection): Promise<void> {
    try {
      await this.#driver.resume(this.#specOf(row));
    } catch (error) {
      if (!(error instanceof DriverError && error.code === 'host_disk_full')) throw error;
      const pressure = { run: found.run, ended: false };
      this.#report(row.sandboxId, found, 'room', () => this.#facts.diskPressure(row.sandboxId, pressure));
    }
  }

  async #lookOn(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(ignoreAbort);
      if (signal.aborted) return;
      await this.#look(new Date()).catch((error) => {
        this.#logger.warn({ err: error }, 'the sandboxes of this host could not be compared with their rows');
      });
    }
  }

  async #look(lastAlive: Date): Promise<void> {
    const resting = await restingSandboxes(this.#orm.em, this.#hostId);
    const ids = new Set(resting.map(({ sandboxId }) => sandboxId));
    for (const sandboxId of this.#reports.keys()) if (!ids.has(sandboxId)) this.#reports.delete(sandboxId);
    for (const row of resting) await this.#alone(row.sandboxId, () => this.#compare(row, lastAlive));
    await this.#driver.repairLinks(resting);
    await this.#restartAgents(resting);
  }

  /** In the background, so that a sandbox in which nothing can be started keeps no other from being looked at. */
  async #restartAgents(resting: readonly RestingSandbox[]): Promise<void> {
    const running = resting.flatMap(({ sandboxId, status }) => (status === 'running' ? [sandboxId] : []));
    for (const row of await runningSandboxes(this.#orm.em, this.#hostId, this.#driver.withoutAgent(running))) {
      void this.#alone(row.sandboxId, async () => this.#driver.restartAgent(this.#specOf(row)));
    }
  }

  async #compare(row: RestingSandbox, lastAlive: Date): Promise<void> {
    const { sandboxId, status, holdsCompute } = row;
    const found = await this.#driver.inspect(sandboxId);
    if (found.state === 'running' || found.state === 'paused') return;
    if (found.state === 'absent') {
      return this.#report(sandboxId, found, 'disk', () => this.#facts.diskLost(sandboxId, found.run));
    }
    // Without processes, frozen or not, there is no memory that could have been lost.
    if (status === 'paused' && !holdsCompute) return;
    // Processes that end by themselves leave a record of how; a host that goes down takes them without one.
    const { exit } = found;
    if (exit && status !== 'paused') this.#report(sandboxId, found, 'processes', () => this.#facts.exited(exit));
    else this.#report(sandboxId, found, 'processes', () => this.#facts.memoryLost(sandboxId, found.run, lastAlive));
  }

  /** Sends in the background, so that a Temporal that is away does not keep other sandboxes from being looked at. */
  #report(sandboxId: SandboxId, { run }: SandboxInspection, lost: Loss, send: () => Promise<void>): void {
    const before = this.#reports.get(sandboxId);
    const isRecent =
      before?.run === run && before.lost === lost && performance.now() - before.sentAtMs < reportAgainAfterMs;
    if (before?.underWay || isRecent) return;
    const report = { run, lost, sentAtMs: performance.now(), underWay: true };
    this.#reports.set(sandboxId, report);
    send()
      .catch((error) => {
        this.#reports.delete(sandboxId);
        this.#logger.warn({ err: error, sandboxId }, 'a report was not accepted; the next look makes it again');
      })
      .finally(() => {
        report.underWay = false;
      });
  }
}

/**
 * On a host that was given up: waits until the platform has done so with each sandbox. Before that, some would still
 * look as if they ran here.
 */
export async function whenGivenUp(orm: Orm, hostId: string, logger: Logger): Promise<void> {
  logger.warn('this host was given up while it was away; its sandboxes are cleaned up');
  while ((await sandboxesBoundTo(orm.em, hostId)).length > 0) await delay(250);
}

function ignoreAbort(error: Error): void {
  if (error.name !== 'AbortError') throw error;
}
