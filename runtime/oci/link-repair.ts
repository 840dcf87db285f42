import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { CancellableWork } from '../cancellable-work.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { LinkedSandbox } from '../host-driver.ts';
import type { KeyedLock } from '../process/keyed-lock.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { SandboxConnection, SandboxNetwork } from './network.ts';
import { hostRoutes, isLinkIntact, repairLink } from './sandbox-link.ts';
import { readPids, type SandboxRecord, type SandboxRecords } from './sandbox-records.ts';

/** The number of links that are checked before the event loop gets a turn, which takes a few milliseconds. */
const checksPerTurn = 50;

/** Restores links and routes of sandboxes that something outside the platform has removed. */
export class LinkRepair {
  readonly #records: SandboxRecords;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #lock: KeyedLock;
  readonly #work: CancellableWork;
  readonly #onRepair: (record: SandboxRecord) => void;
  readonly #logger: DriverLogger;

  constructor(parts: {
    records: SandboxRecords;
    network: SandboxNetwork;
    runner: ContainerRunner;
    lock: KeyedLock;
    work: CancellableWork;
    /** Called after a repair, because the counters of the new link begin at zero. */
    onRepair: (record: SandboxRecord) => void;
    logger: DriverLogger;
  }) {
    this.#records = parts.records;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#lock = parts.lock;
    this.#work = parts.work;
    this.#onRepair = parts.onRepair;
    this.#logger = parts.logger;
  }

  /** @returns the sandboxes with restored links or routes */
  async repairAll(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    const repaired: SandboxId[] = [];
    const routes = hostRoutes();
    for (const [at, { sandboxId, allowInternetAccess }] of sandboxes.entries()) {
      if (at % checksPerTurn === checksPerTurn - 1) await nextTurn();
      const pids = readPids(this.#records.sandboxFolder(sandboxId));
      const connection = this.#findConnection(sandboxId, allowInternetAccess);
      if (!pids || !connection || isLinkIntact(connection, pids.initPid, routes)) continue;
      // The lock is taken only now, because a start or an end may hold it for long.
      if (this.#work.isBusyWith(sandboxId)) continue;
      await this.#lock.run(sandboxId, async () => {
        const record = this.#records.get(sandboxId);
        if (record && (await this.repair(record, allowInternetAccess))) repaired.push(sandboxId);
      });
    }
    return repaired;
  }

  /** @returns whether a part of the link had to be repaired */
  async repair(record: SandboxRecord, allowInternetAccess: boolean): Promise<boolean> {
    const folder = this.#records.sandboxFolder(record.sandboxId);
    const connection = this.#findConnection(record.sandboxId, allowInternetAccess);
    const pids = readPids(folder);
    if (!connection || !pids || !this.#runner.isRunning(folder)) return false;
    if (isLinkIntact(connection, pids.initPid, hostRoutes())) return false;
    await repairLink(connection, pids.initPid);
    this.#logger.warn({ sandboxId: record.sandboxId }, 'the link or route of a sandbox was missing and was restored');
    this.#onRepair(record);
    return true;
  }

  /** Null: the sandbox is not ready. */
  #findConnection(sandboxId: SandboxId, allowInternetAccess: boolean): SandboxConnection | null {
    const record = this.#records.get(sandboxId);
    return record?.phase === 'ready' ? this.#network.createConnection(record.address, allowInternetAccess) : null;
  }
}
