import path from 'node:path';
import type { DriverLogger } from '../driver-logger.ts';
import { noteImageUser } from '../images/image-cache.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import type { ExitWatch } from './exit-watch.ts';
import { liveShims } from './live-shims.ts';
import type { SandboxNetwork } from './network.ts';
import type { PausedMemory } from './paused-memory.ts';
import { type ReconcileReport, removeOrphans } from './reconcile.ts';
import type { SandboxEnds } from './sandbox-ends.ts';
import type { SandboxMeters } from './sandbox-meters.ts';
import { readExit, readPids, type SandboxRecord, type SandboxRecords } from './sandbox-records.ts';

interface TakeOverParts {
  copy: Copy;
  cgroups: Cgroups;
  network: SandboxNetwork;
  runner: ContainerRunner;
  records: SandboxRecords;
  exits: ExitWatch;
  meters: SandboxMeters;
  ends: SandboxEnds;
  pausedMemory: PausedMemory;
  logger: DriverLogger;
}

/**
 * Takes over the running sandboxes of an earlier process, and repairs or removes what it has left.
 * @returns the removed leftovers without a sandbox
 */
export async function takeOver(parts: TakeOverParts): Promise<Omit<ReconcileReport, 'sandboxes'>> {
  const { copy, network, runner, records, logger } = parts;
  await records.load();
  // Done before any container is ended, because the former address of one sandbox may now belong to another.
  for (const record of records.all()) {
    if (runner.isRunning(records.sandboxFolder(record.sandboxId))) network.adopt(record.address, record.instance);
  }
  const orphans = await removeOrphans({ ...parts, records: records.all() });
  if (Object.values(orphans).some((found) => found.length > 0)) {
    logger.info({ ...orphans }, 'removed leftovers of an earlier process');
  }
  for (const record of records.all()) {
    try {
      await takeOverOne(record, parts);
    } catch (error) {
      logger.error({ err: error, sandboxId: record.sandboxId }, 'a sandbox could not be taken over');
    }
  }
  // Sandboxes that have run since before the cache recorded the users of images.
  for (const { image, folder } of liveShims(copy)) await noteImageUser(path.dirname(image), folder);
  return orphans;
}

async function takeOverOne(
  record: SandboxRecord,
  { cgroups, network, runner, records, exits, meters, ends, pausedMemory }: TakeOverParts,
): Promise<void> {
  const { sandboxId } = record;
  const folder = records.sandboxFolder(sandboxId);
  if (record.phase === 'ready' && runner.isRunning(folder)) {
    await network.expose(record.address, record.udpPorts ?? []);
    // The last worker may have died while a pause or a copy of the disk had lifted them.
    await runner.limitDisk(record.instance, readPids(folder)!.shim.pid, record.diskRates);
    // Else its processes stayed frozen while the sandbox counts as running.
    await cgroups.freezer.dissolveClients(record.instance);
    exits.add(sandboxId);
    if (cgroups.freezer.isFrozen(record.instance)) pausedMemory.giveBackLater(record.instance);
    else meters.begin(record);
    return;
  }
  await ends.end(record);
  if (record.phase === 'starting') await records.write({ ...record, phase: 'stopped' });
  if (record.phase !== 'ready' || record.exitReported) return;
  // Either the sandbox ended while no host worker ran, so the listener does not know it, or it ended because the host
  // restarted.
  if (await readExit(folder, record)) exits.add(sandboxId);
  else await records.write({ ...record, exitReported: true });
}
