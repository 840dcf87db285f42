import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import {
  runningSandboxes,
  type StableSandbox,
  sandboxesBoundTo,
  sandboxesOnHost,
  stableSandboxes,
} from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { isOver } from '../../domain/sandboxes/state.ts';
import { DriverError, type SandboxDriver, type SandboxInspection, type SandboxSpec } from '../../runtime/driver.ts';
import type { HostDriver } from '../../runtime/host-driver.ts';
import type { SandboxFacts } from '../sandboxes/facts.ts';

/** The part of a driver that reconciliation needs. */
export type ReconcilingDriver = SandboxDriver &
  Pick<HostDriver, 'reconcile' | 'repairLinks' | 'withoutAgent' | 'restartAgent'>;

/**
 * Why a sandbox is reported. `disk_space`: it is frozen and the disk has no space for it. A report with a changed
 * reason is sent at once.
 */
type Loss = 'processes' | 'disk' | 'disk_space';

const everyMs = 4000;
/** A workflow normally acts on a report much sooner. If it has not, the report is sent again after this time. */
const reportAgainAfterMs = 60_000;

/**
 * Compares the sandboxes on this host with their rows: thoroughly when the host starts, and every few seconds
 * afterwards. Only sandboxes in the statuses `running` and `paused` are compared. In every other status an activity of
 * the workflow is in progress, and Temporal retries it.
 */
export class HostReconciliation {
  readonly #orm: Orm;
  readonly #plans: PlanCatalog;
  readonly #driver: ReconcilingDriver;
  readonly #facts: SandboxFacts;
  readonly #hostId: string;
  readonly #createSpec: (row: Sandbox) => SandboxSpec;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  readonly #reports = new Map<SandboxId, { run: number | null; lost: Loss; sentAtMs: number; inProgress: boolean }>();
  #running: Promise<void> | null = null;

  constructor(deps: {
    orm: Orm;
    plans: PlanCatalog;
    driver: ReconcilingDriver;
    facts: SandboxFacts;
    hostId: string;
    createSpec: (row: Sandbox) => SandboxSpec;
    logger: Logger;
  }) {
    this.#orm = deps.orm;
    this.#plans = deps.plans;
    this.#driver = deps.driver;
    this.#facts = deps.facts;
    this.#hostId = deps.hostId;
    this.#createSpec = deps.createSpec;
    this.#logger = deps.logger;
  }

  /**
   * Call this before the host takes work. It removes sandboxes that no row needs, releases the capacity of ended ones,
   * and reports processes that ended while the host was away.
   * @param lastAlive when this host was last known to be up; after a restart of the host, its processes ended then
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
        await life.releaseCapacity(row.sandboxId);
      });
    }
    for (const row of living) await this.#alone(row.sandboxId, () => this.#settle(row));
    await this.#compareAll(lastAlive);
    this.#logger.info(
      { sandboxes: living.length, cleaned: rows.length - living.length },
      'the sandboxes of the host were reconciled with their rows',
    );
  }

  /** An error with one sandbox is logged and does not stop the check of the others. */
  async #alone(sandboxId: SandboxId, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#logger.error({ err: error, sandboxId }, 'a sandbox could not be reconciled with its row');
    }
  }

  /** Starts the repeated checks. */
  start(): void {
    this.#running ??= this.#repeatChecks();
  }

  /** Stops after the current check. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /**
   * A pause or resume may have succeeded although the workflow gave it up while this host was away. The row decides.
   */
  async #settle(row: Sandbox): Promise<void> {
    if (row.status !== 'running' && row.status !== 'paused') return;
    const found = await this.#driver.inspect(row.sandboxId);
    const { state } = found;
    if (row.status === 'paused' && state === 'running') await this.#driver.pause(row.sandboxId);
    if (row.status === 'running' && state === 'paused') await this.#goOn(row, found);
    // If the host lost its record of the sandbox, it has also lost its UDP ports.
    const { udpPorts } = this.#createSpec(row);
    if (udpPorts.length > 0 && state !== 'exited' && state !== 'absent') {
      await this.#driver.exposeUdp(row.sandboxId, udpPorts);
    }
  }

  /** Resumes a sandbox. If the disk is full, the sandbox stays frozen and its row becomes `paused`. */
  async #goOn(row: Sandbox, found: SandboxInspection): Promise<void> {
    try {
      await this.#driver.resume(this.#createSpec(row));
    } catch (error) {
      if (!(error instanceof DriverError && error.code === 'host_disk_full')) throw error;
      const pressure = { run: found.run, ended: false };
      this.#report(row.sandboxId, found, 'disk_space', () => this.#facts.diskPressure(row.sandboxId, pressure));
    }
  }

  async #repeatChecks(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(ignoreAbort);
      if (signal.aborted) return;
      await this.#compareAll(new Date()).catch((error) => {
        this.#logger.warn({ err: error }, 'the sandboxes of this host could not be compared with their rows');
      });
    }
  }

  async #compareAll(lastAlive: Date): Promise<void> {
    const stable = await stableSandboxes(this.#orm.em, this.#hostId);
    const ids = new Set(stable.map(({ sandboxId }) => sandboxId));
    for (const sandboxId of this.#reports.keys()) if (!ids.has(sandboxId)) this.#reports.delete(sandboxId);
    for (const row of stable) await this.#alone(row.sandboxId, () => this.#compare(row, lastAlive));
    await this.#driver.repairLinks(stable);
    await this.#restartAgents(stable);
  }

  /** Runs in the background, so that a sandbox that cannot start a process does not delay the check of others. */
  async #restartAgents(stable: readonly StableSandbox[]): Promise<void> {
    const running = stable.flatMap(({ sandboxId, status }) => (status === 'running' ? [sandboxId] : []));
    for (const row of await runningSandboxes(this.#orm.em, this.#hostId, this.#driver.withoutAgent(running))) {
      void this.#alone(row.sandboxId, async () => this.#driver.restartAgent(this.#createSpec(row)));
    }
  }

  async #compare(row: StableSandbox, lastAlive: Date): Promise<void> {
    const { sandboxId, status, holdsCompute } = row;
    const found = await this.#driver.inspect(sandboxId);
    if (found.state === 'running' || found.state === 'paused') return;
    if (found.state === 'absent') {
      return this.#report(sandboxId, found, 'disk', () => this.#facts.diskLost(sandboxId, found.run));
    }
    // A sandbox without processes cannot have lost memory.
    if (status === 'paused' && !holdsCompute) return;
    // Processes that end by themselves leave a record of it. A crash of the host leaves none.
    const { exit } = found;
    if (exit && status !== 'paused') this.#report(sandboxId, found, 'processes', () => this.#facts.exited(exit));
    else this.#report(sandboxId, found, 'processes', () => this.#facts.memoryLost(sandboxId, found.run, lastAlive));
  }

  /** Sent in the background, so that an outage of Temporal does not delay the check of other sandboxes. */
  #report(sandboxId: SandboxId, { run }: SandboxInspection, lost: Loss, send: () => Promise<void>): void {
    const before = this.#reports.get(sandboxId);
    const isRecent =
      before?.run === run && before.lost === lost && performance.now() - before.sentAtMs < reportAgainAfterMs;
    if (before?.inProgress || isRecent) return;
    const report = { run, lost, sentAtMs: performance.now(), inProgress: true };
    this.#reports.set(sandboxId, report);
    send()
      .catch((error) => {
        this.#reports.delete(sandboxId);
        this.#logger.warn({ err: error, sandboxId }, 'a report was not accepted; the next check repeats it');
      })
      .finally(() => {
        report.inProgress = false;
      });
  }
}

/**
 * For a host that was given up. Waits until the platform has failed or moved each of its sandboxes. Until then some
 * rows still refer to this host.
 */
export async function whenGivenUp(orm: Orm, hostId: string, logger: Logger): Promise<void> {
  logger.warn('this host was given up while it was away; removing its sandboxes');
  while ((await sandboxesBoundTo(orm.em, hostId)).length > 0) await delay(250);
}

function ignoreAbort(error: Error): void {
  if (error.name !== 'AbortError') throw error;
}
