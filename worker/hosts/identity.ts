import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { HostRegistration } from '../../db/hosts/hosts.ts';
import { makeId } from '../../domain/ids.ts';
import { writeFileDurablySync } from '../../platform/config/durable-file.ts';
import type { Settings } from '../../platform/config/settings.ts';
import type { HostDriver } from '../../runtime/host-driver.ts';

/** The host's registration, with the total that may be promised to its sandboxes if the operator limits it. */
export function describeHost(
  settings: Settings,
  hostId: string,
  driver: Pick<HostDriver, 'load' | 'diskCapacityBytes'>,
): HostRegistration {
  const limit = (amount: () => number, overcommit: number | undefined) =>
    overcommit === undefined ? null : Math.floor(amount() * overcommit);
  return {
    hostId,
    region: settings.PLATFORM_REGION,
    regionName: settings.PLATFORM_REGION_NAME,
    cpuCapacity: limit(() => driver.load.coreCount, settings.PLATFORM_HOST_CPU_OVERCOMMIT),
    memoryMbCapacity: limit(() => driver.load.memory().totalMb, settings.PLATFORM_HOST_MEMORY_OVERCOMMIT),
    diskGbCapacity: limit(() => driver.diskCapacityBytes() / 1024 ** 3, settings.PLATFORM_HOST_DISK_OVERCOMMIT),
    bandwidthMbps: settings.PLATFORM_SANDBOX_BANDWIDTH_MBPS || undefined,
  };
}

/** The host id of the settings, or the id stored in the data folder. @throws {Error} when the stored id is damaged */
export function readHostId(settings: Settings): string {
  return settings.PLATFORM_HOST_ID ?? keptHostId(settings.PLATFORM_DATA_DIR);
}

const keptHostIdForm = /^host-[a-z0-9]{20}$/;

/** A host keeps its id across restarts, because its sandboxes are found by it. */
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
