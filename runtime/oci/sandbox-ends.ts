import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import type { SandboxMeters } from './sandbox-meters.ts';
import { readPids, type SandboxRecord, type SandboxRecords } from './sandbox-records.ts';

/** Ends the processes of sandboxes, and deletes their folders. */
export class SandboxEnds {
  readonly #copy: Copy;
  readonly #runner: ContainerRunner;
  readonly #records: SandboxRecords;
  readonly #meters: SandboxMeters;

  constructor(parts: { copy: Copy; runner: ContainerRunner; records: SandboxRecords; meters: SandboxMeters }) {
    this.#copy = parts.copy;
    this.#runner = parts.runner;
    this.#records = parts.records;
    this.#meters = parts.meters;
  }

  /** Ends a sandbox, and records that it is stopped. */
  async stop(sandboxId: SandboxId): Promise<void> {
    const folder = this.#records.sandboxFolder(sandboxId);
    this.#meters.end(sandboxId);
    const record = this.#records.get(sandboxId);
    const recordStopped = async () => {
      if (record && record.phase !== 'stopped' && existsSync(folder)) {
        await this.#records.write({ ...record, phase: 'stopped' });
      }
    };
    let isRecorded = true;
    await recordStopped().catch((error) => {
      // On a full disk the end comes first, because it frees space.
      if (!isOutOfSpace(error)) throw error;
      isRecorded = false;
    });
    // If the sandbox's files are missing, its resources outside the folder must be read from the kernel.
    const isWhole = record !== null && readPids(folder) !== null;
    if (record) await this.end(record);
    if (!isWhole) await this.#runner.endStrays(sandboxId, folder);
    if (!isRecorded) await recordStopped();
  }

  /** Removes everything of a sandbox outside its folder. */
  end(record: SandboxRecord): Promise<void> {
    this.#meters.end(record.sandboxId);
    return this.#runner.end(this.#records.sandboxFolder(record.sandboxId), record.instance, record.address);
  }

  /**
   * Moves the folder aside first, so that an interrupted deletion leaves no half-deleted sandbox. Needs no disk space.
   */
  async deleteFolder(sandboxId: SandboxId): Promise<void> {
    const folder = this.#records.sandboxFolder(sandboxId);
    const trash = path.join(this.#copy.trashFolder, `sandbox-${randomBytes(6).toString('hex')}`);
    try {
      await rename(folder, trash);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (!isOutOfSpace(error)) throw error;
      // The trash folder had no space for another entry.
      await rm(folder, { recursive: true, force: true });
    }
    await rm(trash, { recursive: true, force: true });
  }
}
