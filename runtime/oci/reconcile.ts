import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import { liveShims } from './live-shims.ts';
import type { SandboxNetwork } from './network.ts';
import { foldersIn, type SandboxRecord } from './sandbox-records.ts';

/** The removed leftovers that belonged to no known sandbox. */
export interface ReconcileReport {
  sandboxes: SandboxId[];
  poolMembers: string[];
  containers: string[];
  interfaces: string[];
}

/**
 * Removes leftovers of an earlier process of this copy that have no owner any more: pool members, which only that
 * process could claim, and containers, shims, links and half-deleted folders without a sandbox. Failures are logged,
 * and the leftover stays until the next start. Safe only before anything is started.
 */
export async function removeOrphans(parts: {
  copy: Copy;
  cgroups: Cgroups;
  network: SandboxNetwork;
  runner: ContainerRunner;
  records: readonly SandboxRecord[];
  logger: DriverLogger;
}): Promise<Omit<ReconcileReport, 'sandboxes'>> {
  const { copy, cgroups, network, runner, records, logger } = parts;
  const remove = async (what: string, act: () => Promise<unknown>) => {
    try {
      await act();
    } catch (error) {
      logger.error({ err: error, what }, 'a leftover of an earlier process could not be removed');
    }
  };
  const poolMembers = await foldersIn(copy.poolFolder);
  for (const instance of poolMembers) {
    const folder = path.join(copy.poolFolder, instance);
    await remove(folder, async () => {
      await runner.endStrays(instance, folder);
      await rm(folder, { recursive: true, force: true });
    });
  }
  for (const folder of [copy.poolFolder, copy.trashFolder]) {
    for (const name of await readdir(folder)) {
      await remove(name, () => rm(path.join(folder, name), { recursive: true, force: true }));
    }
  }
  const instances = new Set(records.map((record) => record.instance));
  const strays = liveShims(copy).filter((shim) => !instances.has(shim.instance));
  for (const { folder, instance } of strays) await remove(instance, () => runner.endStrays(instance, folder));
  const containers = (await cgroups.instances()).filter((instance) => !instances.has(instance));
  for (const instance of containers) await remove(instance, () => cgroups.destroy(instance));
  const interfaces = new Set(records.map((record) => network.interfaceName(record.address)));
  const links = network.interfaces().filter((name) => !interfaces.has(name));
  for (const name of links) await remove(name, () => network.removeInterface(name));
  return { poolMembers, containers, interfaces: links };
}
