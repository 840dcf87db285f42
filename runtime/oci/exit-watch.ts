import type { SandboxExit } from '../driver.ts';
import type { KeyedLock } from '../process/keyed-lock.ts';
import { isAlive, type ProcessIdentity } from '../process/process-identity.ts';
import type { DriverLogger } from './driver-logger.ts';
import { readExit, readPids, type SandboxRecord, unrecordedExit } from './sandbox-folder.ts';
import type { SandboxRecords } from './sandbox-records.ts';

const intervalMs = 1000;

/** Notices the end of sandboxes that should be running, and tells of each once. */
export class ExitWatch {
  readonly #lock: KeyedLock;
  readonly #records: SandboxRecords;
  readonly #end: (record: SandboxRecord) => Promise<void>;
  readonly #logger: DriverLogger;
  /** With their shims, as they were when the watch of them began. */
  readonly #watched = new Map<string, ProcessIdentity | undefined>();
  readonly #listeners: ((exit: SandboxExit) => void)[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(parts: {
    lock: KeyedLock;
    records: SandboxRecords;
    /** Takes away what an ended sandbox may have left outside of its folder. */
    end: (record: SandboxRecord) => Promise<void>;
    logger: DriverLogger;
  }) {
    this.#lock = parts.lock;
    this.#records = parts.records;
    this.#end = parts.end;
    this.#logger = parts.logger;
    this.#timer = setInterval(() => this.#look(), intervalMs).unref();
  }

  /** Begins to watch a sandbox that runs, or that has ended without anybody being told. */
  add(sandboxId: string): void {
    this.#watched.set(sandboxId, readPids(this.#records.folderOf(sandboxId))?.shim);
  }

  /** Its end is asked for. */
  delete(sandboxId: string): void {
    this.#watched.delete(sandboxId);
  }

  /** Ends that were noticed before the first listener came are told to it. */
  onExit(listener: (exit: SandboxExit) => void): void {
    this.#listeners.push(listener);
    this.#look();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    if (this.#listeners.length === 0) return;
    for (const [sandboxId, shim] of this.#watched) {
      if (shim && isAlive(shim)) continue;
      this.#watched.delete(sandboxId);
      this.#lock
        .run(sandboxId, () => this.#report(sandboxId))
        .catch((error) => {
          this.#watched.set(sandboxId, undefined);
          this.#logger.error({ err: error, sandboxId }, 'the end of a sandbox could not be handled');
        });
    }
  }

  async #report(sandboxId: string): Promise<void> {
    const folder = this.#records.folderOf(sandboxId);
    const record = this.#records.get(sandboxId);
    if (record?.phase !== 'ready' || record.exitReported) return;
    const pids = readPids(folder);
    if (pids && isAlive(pids.shim)) return;
    await this.#end(record);
    const exit = (await readExit(folder, sandboxId)) ?? (await unrecordedExit(folder, sandboxId));
    for (const listener of this.#listeners) listener(exit);
    await this.#records.write({ ...record, exitReported: true });
  }
}
