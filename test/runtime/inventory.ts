import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { HostDriver } from '../../runtime/host-driver.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import type { Copy } from '../../runtime/oci/copy.ts';
import { hasFirewall, udpRoutesInKernel } from '../../runtime/oci/firewall-table.ts';
import { isOfHost, liveShims } from '../../runtime/oci/live-shims.ts';
import { foldersIn } from '../../runtime/oci/sandbox-records.ts';

/** All resources of one copy on the machine. Without sandboxes, only the firewall's table remains. */
export interface Inventory {
  /** Instances that have a control group. */
  containers: string[];
  /** Host process numbers of the processes in those groups. */
  processes: number[];
  /** Host process numbers of the shims, including shims without a container. */
  shims: number[];
  /** Mounts that the host sees. Those of sandboxes are in namespaces of their own. */
  mounts: string[];
  /** Host process numbers of the processes that serve buckets to sandboxes. */
  bucketProcesses: number[];
  /** `loop<n> <file>`. */
  loopDevices: string[];
  /** The host's ends of sandboxes' links. */
  interfaces: string[];
  /** `<port of the host> → <address>:<port>` for each port that is forwarded to a sandbox. */
  udpRoutes: string[];
  /** Whether the firewall's table exists. It contains nothing about single sandboxes except those routes. */
  firewall: boolean;
  /** Folders of sandboxes, of the warm pool, and of deleted sandboxes that wait for removal. */
  folders: { sandboxes: string[]; pool: string[]; trash: string[] };
}

/** Reads the inventory from the kernel and the disk, not from a driver's memory. */
export async function takeInventory(copy: Copy): Promise<Inventory> {
  const cgroups = new Cgroups(copy.cgroup);
  const containers = await cgroups.instances();
  const processes = (await Promise.all(containers.map((instance) => cgroups.readProcesses(instance)))).flat();
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '');
  return {
    containers,
    processes,
    shims: liveShims(copy).map((shim) => shim.process.pid),
    mounts: mounts.filter((target) => target.startsWith(`${copy.folder}/`)),
    bucketProcesses: await listBucketProcesses(copy, cgroups, containers),
    loopDevices: listLoopDevices(copy),
    interfaces: readdirSync('/sys/class/net').filter((name) => name.startsWith(`${copy.interface}-`)),
    udpRoutes: (await udpRoutesInKernel(copy.table)) ?? [],
    firewall: await hasFirewall(copy.table),
    folders: {
      sandboxes: await foldersIn(copy.sandboxesFolder),
      pool: await foldersIn(copy.poolFolder),
      trash: await foldersIn(copy.trashFolder),
    },
  };
}

/** Ends every sandbox of a driver, and removes everything of its copy from the machine. */
export async function leaveMachine(driver: HostDriver): Promise<void> {
  await driver.close();
  await driver.reconcile([]);
  await driver.leaveIfEmpty();
}

function listLoopDevices(copy: Copy): string[] {
  const devices: string[] = [];
  for (const name of readdirSync('/sys/block').filter((each) => each.startsWith('loop'))) {
    const file = readIfThere(path.join('/sys/block', name, 'loop/backing_file'))?.trim();
    if (file?.startsWith(`${copy.folder}/`)) devices.push(`${name} ${file}`);
  }
  return devices;
}

/** Finds s3fs by its control group, and the relay and the parent of both by their command lines. */
async function listBucketProcesses({ storageGid }: Copy, cgroups: Cgroups, instances: string[]): Promise<number[]> {
  const serving = await Promise.all(instances.map((instance) => cgroups.storage.readProcesses(instance)));
  const started = allProcesses().filter((pid) => isOfHost(pid) && hasWord(pid, (word) => word === `gid=${storageGid}`));
  return [...new Set([...started, ...serving.flat()])];
}

function allProcesses(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function hasWord(pid: number, is: (word: string) => boolean): boolean {
  return readIfThere(`/proc/${pid}/cmdline`)?.split('\0').some(is) ?? false;
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
