import { readdirSync, statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { type DiskSpace, readDiskSpace } from '../disk/disk-space.ts';
import type { DiskUse } from '../host-driver.ts';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';
import type { SandboxRecords } from './sandbox-records.ts';

/** The use of the file system with the disks of the sandboxes. */
export class SandboxDisks {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #records: SandboxRecords;

  constructor(parts: { copy: Copy; cgroups: Cgroups; records: SandboxRecords }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#records = parts.records;
  }

  /** As `HostDriver.diskSpace`. */
  space(): DiskSpace {
    const space = readDiskSpace(this.#copy.folder);
    return { ...space, bytes: space.bytes - this.#cgroups.unwrittenBytes('') };
  }

  /** As `HostDriver.diskCapacityBytes`. */
  capacityBytes(): number {
    const { bavail, bsize } = statfsSync(this.#copy.folder);
    const held = readdirSync(this.#copy.sandboxesFolder).map((name) => {
      const disk = statSync(path.join(this.#copy.sandboxesFolder, name, 'disk.ext4'), { throwIfNoEntry: false });
      return (disk?.blocks ?? 0) * 512;
    });
    return held.reduce((sum, bytes) => sum + bytes, bavail * bsize);
  }

  /** The use of one sandbox. Null: it has no record or no disk. */
  readUse(sandboxId: SandboxId): DiskUse | null {
    const record = this.#records.get(sandboxId);
    const disk = statSync(path.join(this.#records.sandboxFolder(sandboxId), 'disk.ext4'), { throwIfNoEntry: false });
    if (!record || !disk) return null;
    const bytes = disk.blocks * 512 + this.#cgroups.unwrittenBytes(record.instance);
    return { sandboxId, run: record.run ?? null, bytes, isFrozen: this.#cgroups.freezer.isFrozen(record.instance) };
  }
}
