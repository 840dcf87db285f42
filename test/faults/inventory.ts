import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { FaultyPlatform } from './faulty-platform.ts';

/**
 * Everything of a platform on the machine and in its stores. Without sandboxes only the listed kept things remain. It
 * is read from the kernel, Postgres and Temporal, not through the platform's own code.
 */
export interface Inventory {
  containers: string[];
  processes: string[];
  mounts: string[];
  loopDevices: string[];
  namespaces: string[];
  veths: string[];
  nftRules: string[];
  cgroups: string[];
  folders: string[];
  rows: string[];
  workflows: string[];
  reservations: string[];
}

/** @param dataDirs of every host; the default is the platform's own */
export async function takeInventory(platform: FaultyPlatform, dataDirs = [platform.dataDir]): Promise<Inventory> {
  const machines = dataDirs.map((dir) => onMachine(dir));
  const gathered = Object.fromEntries(
    Object.keys(machines[0]!).map((kind) => [kind, machines.flatMap((each) => each[kind as keyof MachineInventory])]),
  ) as unknown as MachineInventory;
  return { ...gathered, ...(await inStores(platform)) };
}

/** Its content, one line per thing. */
export function leftovers(inventory: Inventory): string[] {
  return Object.entries(inventory).flatMap(([kind, found]) => (found as string[]).map((each) => `${kind}: ${each}`));
}

type MachineInventory = Omit<Inventory, 'rows' | 'workflows' | 'reservations'>;

/** Groups of a host that stay when they are empty. */
const keptGroups = ['shims', 'storage'];

function onMachine(dataDir: string): MachineInventory {
  const folder = path.join(dataDir, 'oci');
  const { id } = JSON.parse(readFileSync(path.join(folder, 'copy.json'), 'utf8')) as { id: string };
  const parents = hierarchies()
    .map((root) => path.join(root, `sandboxes-${id}`))
    .flatMap((parent) => [parent, path.join(parent, 'storage')]);
  const groups = parents.flatMap((parent) => foldersBelow(parent).filter((name) => !keptGroups.includes(name)));
  const processes = allProcesses();
  const inGroups = parents.flatMap((parent) => foldersBelow(parent).map((name) => path.join(parent, name)));
  const grouped = new Set(
    inGroups
      .filter((group) => !keptGroups.includes(path.basename(group)))
      .flatMap((group) => lines(path.join(group, 'cgroup.procs'))),
  );
  const shims = processes.filter((each) => each.words.some((word) => word.startsWith(`interface=sb${id}-`)));
  return {
    containers: [...new Set(groups)],
    processes: [...grouped, ...shims.map((each) => `shim ${each.pid}`)],
    mounts: lines('/proc/self/mountinfo')
      .map((line) => line.split(' ')[4]!)
      .filter((target) => target.startsWith(`${folder}/`)),
    loopDevices: readdirSync('/sys/block').filter((name) =>
      lines(`/sys/block/${name}/loop/backing_file`).some((file) => file.startsWith(`${folder}/`)),
    ),
    // Namespaces of processes end with them. Only a named one can outlive them.
    namespaces: existsSync('/run/netns') ? readdirSync('/run/netns').filter((name) => name.includes(id)) : [],
    veths: readdirSync('/sys/class/net').filter((name) => name.startsWith(`sb${id}-`)),
    nftRules: namesOfSandboxes(`sandboxes_${id}`),
    cgroups: inGroups.filter((group) => !keptGroups.includes(path.basename(group))),
    folders: ['sandboxes', 'pool', 'trash'].flatMap((name) =>
      foldersBelow(path.join(folder, name)).map((each) => `${name}/${each}`),
    ),
  };
}

/** Firewall lines with the address of a sandbox. Without sandboxes there are none. */
function namesOfSandboxes(table: string): string[] {
  let text: string;
  try {
    text = execFileSync('nft', ['-j', 'list', 'table', 'inet', table], { encoding: 'utf8', stdio: 'pipe' });
  } catch {
    return [];
  }
  const { nftables } = JSON.parse(text) as { nftables: { map?: { elem?: unknown[] }; set?: { elem?: unknown[] } }[] };
  return nftables
    .filter((each) => each.map)
    .flatMap((each) => each.map?.elem ?? [])
    .map((element) => JSON.stringify(element));
}

async function inStores(platform: FaultyPlatform): Promise<Pick<Inventory, 'rows' | 'workflows' | 'reservations'>> {
  const outbox = await platform.rows<{ workflow_id: string }>('select workflow_id from outbox');
  const reserved = await platform.rows<{ sandbox_id: string; status: string }>(
    'select sandbox_id, status from sandboxes where holds_compute or holds_disk',
  );
  const open: string[] = [];
  for await (const each of platform.temporal.workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    if (each.type === 'sandbox' || each.type === 'sandboxDeletion') open.push(`${each.type} ${each.workflowId}`);
  }
  const unfinished = await platform.rows<{ sandbox_id: string; status: string }>(
    `select sandbox_id, status from sandboxes where deleted_at is null or status not in ('terminated')`,
  );
  return {
    rows: [
      ...outbox.map((row) => `outbox ${row.workflow_id}`),
      ...unfinished.map((row) => `${row.sandbox_id} ${row.status}`),
    ],
    workflows: open,
    reservations: reserved.map((row) => `${row.sandbox_id} ${row.status}`),
  };
}

function hierarchies(): string[] {
  return lines('/proc/self/mountinfo')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(' ')[4]!);
}

function foldersBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
}

function allProcesses(): { pid: string; words: string[] }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ({ pid, words: lines(`/proc/${pid}/cmdline`).join('').split('\0') }));
}

/** Lines of a file that may be missing, or belong to an ended process. */
function lines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'ENODEV', 'ENXIO', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return [];
    throw error;
  }
}
