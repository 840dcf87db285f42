import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Settings } from '../config/settings.ts';
import type { HostRegistration } from '../db/repositories/hosts.ts';
import { makeId } from '../domain/ids.ts';

/** Who this host is, and what sandboxes may reserve on it: what the machine has, times the overcommit settings. */
export function describeHost(settings: Settings): HostRegistration {
  const disk = statfsSync(settings.PLATFORM_DATA_DIR);
  const gib = 1024 ** 3;
  return {
    hostId: settings.PLATFORM_HOST_ID ?? keptHostId(settings.PLATFORM_DATA_DIR),
    region: settings.PLATFORM_REGION,
    regionName: settings.PLATFORM_REGION_NAME,
    cpuCapacity: Math.floor(os.availableParallelism() * settings.PLATFORM_HOST_CPU_OVERCOMMIT),
    memoryMbCapacity: Math.floor((os.totalmem() / 1024 ** 2) * settings.PLATFORM_HOST_MEMORY_OVERCOMMIT),
    diskGbCapacity: Math.floor(((disk.bavail * disk.bsize) / gib) * settings.PLATFORM_HOST_DISK_OVERCOMMIT),
    bandwidthMbps: settings.PLATFORM_SANDBOX_BANDWIDTH_MBPS || undefined,
  };
}

/** A host keeps its name across restarts: its sandboxes are found by it. */
function keptHostId(dataDir: string): string {
  const file = path.join(dataDir, 'host-id');
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const hostId = makeId('host', randomBytes);
    mkdirSync(dataDir, { recursive: true });
    writeFileSync(file, hostId);
    return hostId;
  }
}
