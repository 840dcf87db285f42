import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxId } from '../../../domain/ids.ts';
import { OperatorError, reportProgress } from '../admin/operator-command.ts';
import { copy } from './file-copy.ts';

/** A copy of a disk in a folder of its host, which the backup removes. */
export interface CopiedDisk {
  folder: string;
  frozenMs: number;
}

/** A start may write to a disk for minutes before the host can copy it. */
const maxTries = 600;
const retryMs = 1000;
const diskFile = 'disk.ext4';
/** The other files in a sandbox's folder are about processes, which a backup does not contain. */
const recordFile = 'sandbox.json';

/** Copies the disks of a host into a backup, one after the other, while their sandboxes run. */
export class DiskBackup {
  readonly #from: string;
  readonly #links: string;
  readonly #to: string;
  readonly #copyDisk: (sandboxId: SandboxId) => Promise<CopiedDisk | null>;
  readonly #copied = new Set<string>();
  maxFrozenMs = 0;

  /**
   * @param parts.links a folder for hard links to the disks, which keep them if their sandboxes are deleted meanwhile
   */
  constructor(parts: {
    from: string;
    links: string;
    to: string;
    copyDisk: (sandboxId: SandboxId) => Promise<CopiedDisk | null>;
  }) {
    this.#from = parts.from;
    this.#links = parts.links;
    this.#to = parts.to;
    this.#copyDisk = parts.copyDisk;
    for (const folder of [parts.links, parts.to]) fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  get copied(): string[] {
    return [...this.#copied];
  }

  /** Links the disks that were made since the last call. */
  linkNew(): void {
    for (const name of fs.existsSync(this.#from) ? fs.readdirSync(this.#from) : []) {
      const folder = path.join(this.#links, name);
      if (fs.existsSync(folder) || !fs.existsSync(path.join(this.#from, name, diskFile))) continue;
      fs.mkdirSync(folder, { mode: 0o700 });
      // A sandbox that is deleted right now has no files any more.
      for (const file of [diskFile, recordFile])
        linkIfThere(path.join(this.#from, name, file), path.join(folder, file));
    }
  }

  /** Copies the disks that were not copied yet. */
  async copyNew(): Promise<void> {
    this.linkNew();
    const names = fs.readdirSync(this.#links).filter((name) => !this.#copied.has(name));
    reportProgress(`copying the disks of ${names.length} sandboxes`);
    for (const name of names) {
      if (await this.#copyOne(name as SandboxId)) this.#copied.add(name);
    }
  }

  /**
   * Copies the records of the sandboxes after the databases, so that no record is of an earlier run than its row. The
   * record of a deleted sandbox is that of its link.
   */
  copyRecords(): void {
    for (const name of this.#copied) {
      const target = path.join(this.#to, name, recordFile);
      const places = [this.#from, this.#links].map((folder) => path.join(folder, name, recordFile));
      places.some((place) => copyIfThere(place, target));
    }
  }

  /** @returns false when the sandbox was deleted before its disk could be linked */
  async #copyOne(name: SandboxId): Promise<boolean> {
    const link = path.join(this.#links, name, diskFile);
    if (!fs.existsSync(link)) return false;
    const target = path.join(this.#to, name, diskFile);
    fs.mkdirSync(path.dirname(target), { recursive: true, mode: 0o700 });
    for (let tries = 0; tries < maxTries; tries += 1) {
      const made = await this.#copyDisk(name);
      if (made) {
        this.maxFrozenMs = Math.max(this.maxFrozenMs, made.frozenMs);
        await copy(path.join(made.folder, diskFile), target);
        fs.rmSync(made.folder, { recursive: true });
        return true;
      }
      // Without processes nothing writes to the disk, unless the sandbox starts during the copy.
      const before = fs.statSync(link).mtimeMs;
      await copy(link, target);
      if (fs.statSync(link).mtimeMs === before) return true;
      await delay(retryMs);
    }
    throw new OperatorError(`The disk of ${name} did not come to rest`);
  }
}

const linkIfThere = (source: string, target: string) => isThere(() => fs.linkSync(source, target));
const copyIfThere = (source: string, target: string) => isThere(() => fs.copyFileSync(source, target));

/** @returns false when the source is gone: a sandbox may be deleted at any time */
function isThere(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
