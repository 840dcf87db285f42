import { rm } from 'node:fs/promises';
import path from 'node:path';
import { isAlive, signalProcess } from '../process/process-identity.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import type { SandboxNetwork } from './network.ts';
import { foldersIn, readPids, readRecord } from './sandbox-folder.ts';

/** What was found without an owner and taken away. */
export interface ReconcileReport {
  sandboxes: string[];
  poolMembers: string[];
  containers: string[];
  interfaces: string[];
}

/**
 * Removes what an earlier process of this copy left and nobody can own any more: pool members, which only that process
 * could claim, and containers, links and half-deleted folders that belong to no sandbox's folder. Safe only before
 * anything is started.
 */
export async function removeOrphans(parts: {
  copy: Copy;
  cgroups: Cgroups;
  network: SandboxNetwork;
  runner: ContainerRunner;
}): Promise<Omit<ReconcileReport, 'sandboxes'>> {
  const { copy, cgroups, network, runner } = parts;
  const poolMembers = await foldersIn(copy.poolFolder);
  for (const instance of poolMembers) {
    const folder = path.join(copy.poolFolder, instance);
    const record = await readRecord(folder);
    if (record) await runner.end(folder, instance, record.address);
    else await endShim(folder);
    await rm(folder, { recursive: true, force: true });
  }
  for (const name of await foldersIn(copy.trashFolder)) {
    await rm(path.join(copy.trashFolder, name), { recursive: true, force: true });
  }
  const instances = new Set<string>();
  const interfaces = new Set<string>();
  for (const name of await foldersIn(copy.sandboxesFolder)) {
    const record = await readRecord(path.join(copy.sandboxesFolder, name));
    if (!record) continue;
    instances.add(record.instance);
    interfaces.add(network.interfaceOf(record.address));
  }
  const containers = (await cgroups.instances()).filter((instance) => !instances.has(instance));
  for (const instance of containers) await cgroups.destroy(instance);
  const links = network.interfaces().filter((name) => !interfaces.has(name));
  for (const name of links) await network.removeInterface(name);
  return { poolMembers, containers, interfaces: links };
}

async function endShim(folder: string): Promise<void> {
  const pids = readPids(folder);
  if (pids && isAlive(pids.shim)) signalProcess(pids.shim, 'SIGTERM');
}
