import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statfsSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { writeFileDurablySync } from '../config/durable-file.ts';
import type { Settings } from '../config/settings.ts';
import type { HostRegistration } from '../db/repositories/hosts.ts';
import { makeId } from '../domain/ids.ts';

/** This host's id, and what its sandboxes may be promised together if the operator limits that. */
export function describeHost(settings: Settings): HostRegistration {
  const gib = 1024 ** 3;
  const limit = (amount: () => number, overcommit: number | undefined) =>
    overcommit === undefined ? null : Math.floor(amount() * overcommit);
  return {
    hostId: settings.PLATFORM_HOST_ID ?? keptHostId(settings.PLATFORM_DATA_DIR),
    region: settings.PLATFORM_REGION,
    regionName: settings.PLATFORM_REGION_NAME,
    cpuCapacity: limit(() => os.availableParallelism(), settings.PLATFORM_HOST_CPU_OVERCOMMIT),
    memoryMbCapacity: limit(() => os.totalmem() / 1024 ** 2, settings.PLATFORM_HOST_MEMORY_OVERCOMMIT),
    diskGbCapacity: limit(() => diskBytes(settings.PLATFORM_DATA_DIR) / gib, settings.PLATFORM_HOST_DISK_OVERCOMMIT),
    bandwidthMbps: settings.PLATFORM_SANDBOX_BANDWIDTH_MBPS || undefined,
  };
}

const keptHostIdForm = /^host-[a-z0-9]{20}$/;

/** Free space plus the space of the sandboxes that are here, so that the capacity does not depend on how full the disk is at start. */
function diskBytes(dataDir: string): number {
  const { bavail, bsize } = statfsSync(dataDir);
  const sandboxes = path.join(dataDir, 'oci', 'sandboxes');
  const held = (existsSync(sandboxes) ? readdirSync(sandboxes) : []).map((name) => {
    const disk = statSync(path.join(sandboxes, name, 'disk.ext4'), { throwIfNoEntry: false });
    return (disk?.blocks ?? 0) * 512;
  });
  return held.reduce((sum, bytes) => sum + bytes, bavail * bsize);
}

/** A host keeps its id across restarts: its sandboxes are found by it. */
function keptHostId(dataDir: string): string {
  const file = path.join(dataDir, 'host-id');
  try {
    const hostId = readFileSync(file, 'utf8').trim();
    // With another id it would be another host, which removes sandboxes that it does not know.
    if (keptHostIdForm.test(hostId)) return hostId;
    throw new Error(
      `${file} is damaged: write this host's id from the table hosts to it, or name it in PLATFORM_HOST_ID`,
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const hostId = makeId('host', randomBytes);
    mkdirSync(dataDir, { recursive: true });
    writeFileDurablySync(file, hostId);
    return hostId;
  }
}
