import { mkdir, readdir, rename } from 'node:fs/promises';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { setAside } from '../../platform/config/readable-document.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { isFirstOfNamespace, parentOf } from '../process/process-identity.ts';
import { isSandboxName, requireSandboxName } from '../sandbox-name.ts';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';
import { type LiveShim, liveShims } from './live-shims.ts';
import { readPids, readRecord, recordFile, type SandboxRecord, writePids, writeRecord } from './sandbox-folder.ts';

/**
 * The records of one copy's sandboxes. They are read once when the host worker starts, then kept in memory, and written
 * to the disk before anything relies on them. So a sandbox can be ended even if its file is damaged or lost.
 */
export class SandboxRecords {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #logger: DriverLogger;
  readonly #records = new Map<SandboxId, SandboxRecord>();

  constructor(parts: { copy: Copy; cgroups: Cgroups; logger: DriverLogger }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#logger = parts.logger;
  }

  /**
   * Reads every sandbox's record. An unusable record is renamed to `sandbox.json.damaged` and affects only its own
   * sandbox: the record is recreated from the running shim. Without a shim, the sandbox counts as ended together with
   * its host.
   */
  async load(): Promise<void> {
    const shims = liveShims(this.#copy);
    for (const entry of await readdir(this.#copy.sandboxesFolder, { withFileTypes: true })) {
      try {
        if (!entry.isDirectory()) await this.#moveAside(entry.name);
        else if (isSandboxName(entry.name)) await this.#loadOne(entry.name, shims);
        else
          this.#logger.warn({ name: entry.name }, "an unknown folder is among the sandboxes' folders; it is ignored");
      } catch (error) {
        this.#logger.error({ err: error, sandboxId: entry.name }, 'the folder of a sandbox could not be read');
      }
    }
  }

  /** Null: no run of the sandbox is known. */
  get(sandboxId: SandboxId): SandboxRecord | null {
    return this.#records.get(sandboxId) ?? null;
  }

  all(): SandboxRecord[] {
    return [...this.#records.values()];
  }

  /** On return, the record is on the disk. */
  async write(record: SandboxRecord): Promise<void> {
    await writeRecord(this.folderOf(record.sandboxId), record);
    this.#records.set(record.sandboxId, record);
  }

  /** Adds a record that is already on the disk, in a folder that has become the sandbox's. */
  adopt(record: SandboxRecord): void {
    this.#records.set(record.sandboxId, record);
  }

  forget(sandboxId: SandboxId): void {
    this.#records.delete(sandboxId);
  }

  /** Every sandbox with a record or a folder. */
  async sandboxIds(): Promise<SandboxId[]> {
    const entries = await readdir(this.#copy.sandboxesFolder, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory() && isSandboxName(entry.name));
    return [...new Set([...this.#records.keys(), ...folders.map((entry) => entry.name as SandboxId)])];
  }

  /** @throws {TypeError} for a text that cannot be a sandbox's id */
  folderOf(sandboxId: SandboxId): string {
    requireSandboxName(sandboxId);
    return path.join(this.#copy.sandboxesFolder, sandboxId);
  }

  async #loadOne(sandboxId: SandboxId, shims: readonly LiveShim[]): Promise<void> {
    const folder = this.folderOf(sandboxId);
    const shim = shims.find((each) => each.folder === folder && !each.isFolderDeleted) ?? null;
    if (shim) await this.#keepPids(folder, shim);
    const read = readOrProblem(folder);
    const problem = read.problem ?? contradiction(sandboxId, read.record, shim, shims);
    if (problem === null) {
      if (read.record) this.#records.set(sandboxId, read.record);
      return;
    }
    this.#logger.error({ sandboxId, problem, runs: shim !== null }, 'the record of a sandbox was damaged or lost');
    if (read.problem !== null || read.record) setAside(path.join(folder, recordFile));
    if (!shim) return;
    const hasContainer = (readPids(folder)?.initPid ?? 0) > 0;
    await this.write({
      sandboxId,
      instance: shim.instance,
      phase: hasContainer ? 'ready' : 'starting',
      address: shim.address,
      exitReported: false,
      remade: true,
    });
  }

  /** Recreates the file of process numbers if it was lost. */
  async #keepPids(folder: string, shim: LiveShim): Promise<void> {
    const known = readPids(folder)?.shim;
    if (known?.pid === shim.process.pid && known.startTicks === shim.process.startTicks) return;
    const processes = await this.#cgroups.processesOf(shim.instance);
    const initPid = processes.find((pid) => parentOf(pid) === shim.process.pid && isFirstOfNamespace(pid)) ?? 0;
    await writePids(folder, shim.process, initPid);
  }

  async #moveAside(name: string): Promise<void> {
    await mkdir(this.#copy.damagedFolder, { recursive: true });
    const target = path.join(this.#copy.damagedFolder, `${name}-${Date.now()}`);
    await rename(path.join(this.#copy.sandboxesFolder, name), target);
    this.#logger.error({ name, target }, "a file that is not a folder had the name of a sandbox's folder");
  }
}

function readOrProblem(folder: string): { record: SandboxRecord | null; problem: string | null } {
  try {
    return { record: readRecord(folder), problem: null };
  } catch (error) {
    return { record: null, problem: (error as Error).message };
  }
}

/** The contradiction between a record and the kernel. Null: there is none. */
function contradiction(
  sandboxId: SandboxId,
  record: SandboxRecord | null,
  shim: LiveShim | null,
  shims: readonly LiveShim[],
): string | null {
  if (!record) return shim ? 'it runs without a record' : null;
  if (record.sandboxId !== sandboxId) return `it names the sandbox ${record.sandboxId}`;
  if (record.instance !== sandboxId && !/^pool-[0-9a-f]{16}$/.test(record.instance)) {
    return `it names the container ${record.instance}`;
  }
  if (shim && (shim.instance !== record.instance || shim.address !== record.address)) {
    return 'it names another container or address than runs';
  }
  const owner = shims.find((each) => each !== shim && each.instance === record.instance);
  return owner ? `it names the container of ${owner.folder}` : null;
}
