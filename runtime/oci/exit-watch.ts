import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxExit } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { KeyedLock } from '../process/keyed-lock.ts';
import { isAlive, mayBeAlive, type ProcessIdentity } from '../process/process-identity.ts';
import { readExit, readPids, type SandboxRecord, type SandboxRecords, unrecordedExit } from './sandbox-records.ts';

const intervalMs = 1000;
/** Each of this many checks is exact. The others are cheaper and may not detect a reused process number. */
const exactEvery = 5;

type ExitListener = (exit: SandboxExit) => unknown;

/**
 * Detects and reports the end of sandboxes that should be running. An end counts as reported when every listener has
 * returned. So after a crash the next host worker repeats reports that may have been lost.
 */
export class ExitWatch {
  readonly #lock: KeyedLock;
  readonly #records: SandboxRecords;
  readonly #end: (record: SandboxRecord) => Promise<void>;
  readonly #logger: DriverLogger;
  /** The watched sandboxes, with their shims at the beginning of the watch. */
  readonly #watched = new Map<SandboxId, ProcessIdentity | undefined>();
  readonly #listeners: ExitListener[] = [];
  readonly #timer: NodeJS.Timeout;
  #checks = 0;

  constructor(parts: {
    lock: KeyedLock;
    records: SandboxRecords;
    /** Removes the resources of an ended sandbox outside its folder. */
    end: (record: SandboxRecord) => Promise<void>;
    logger: DriverLogger;
  }) {
    this.#lock = parts.lock;
    this.#records = parts.records;
    this.#end = parts.end;
    this.#logger = parts.logger;
    this.#timer = setInterval(() => this.#check(), intervalMs).unref();
  }

  /** Begins to watch a sandbox that runs, or that has ended without a report. */
  add(sandboxId: SandboxId): void {
    this.#watched.set(sandboxId, readPids(this.#records.sandboxFolder(sandboxId))?.shim);
  }

  /** Call this when the end of the sandbox was requested. */
  delete(sandboxId: SandboxId): void {
    this.#watched.delete(sandboxId);
  }

  /** The first listener also gets the ends that were detected before it was added. */
  onExit(listener: ExitListener): void {
    this.#listeners.push(listener);
    this.#check();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    if (this.#listeners.length === 0) return;
    const isThere = this.#checks % exactEvery === 0 ? isAlive : mayBeAlive;
    this.#checks += 1;
    for (const [sandboxId, shim] of this.#watched) {
      if (shim && isThere(shim)) continue;
      this.#watched.delete(sandboxId);
      this.#report(sandboxId).catch((error) => {
        // A resume may have begun to watch the next processes meanwhile.
        if (!this.#watched.has(sandboxId)) this.#watched.set(sandboxId, undefined);
        this.#logger.error({ err: error, sandboxId }, 'the end of a sandbox could not be handled');
      });
    }
  }

  async #report(sandboxId: SandboxId): Promise<void> {
    const ended = await this.#lock.run(sandboxId, () => this.#readEnd(sandboxId));
    if (!ended) return;
    // The lock is not held here: a report may take as long as the platform is away, and the sandbox may be resumed
    // meanwhile.
    for (const listener of this.#listeners) await listener(ended.exit);
    await this.#lock.run(sandboxId, () => this.#noteReported(ended.record));
  }

  /** Removes the resources of an ended sandbox. Null: it has not ended, or its end was reported. */
  async #readEnd(sandboxId: SandboxId): Promise<{ record: SandboxRecord; exit: SandboxExit } | null> {
    const folder = this.#records.sandboxFolder(sandboxId);
    const record = this.#records.get(sandboxId);
    if (record?.phase !== 'ready' || record.exitReported) return null;
    const pids = readPids(folder);
    if (pids && isAlive(pids.shim)) return null;
    await this.#end(record);
    return { record, exit: (await readExit(folder, record)) ?? (await unrecordedExit(folder, record)) };
  }

  async #noteReported(ended: SandboxRecord): Promise<void> {
    const record = this.#records.get(ended.sandboxId);
    const isSameRun = record?.run === ended.run && record?.address === ended.address;
    if (record?.phase === 'ready' && isSameRun) await this.#records.write({ ...record, exitReported: true });
  }
}
