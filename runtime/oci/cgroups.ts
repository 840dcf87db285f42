import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import koffi from 'koffi';
import type { Pressure } from '../host-driver.ts';
import { until } from '../process/until.ts';
import {
  CgroupTree,
  foldersBelow,
  type Hierarchies,
  ignoreGoneGroup,
  ignoreGoneProcess,
  isGoneGroup,
  killIfThere,
  readPids,
  removeGroup,
  removeTree,
} from './cgroup-tree.ts';
import { DiskRateLimits } from './disk-rates.ts';
import { GroupFreezer } from './group-freezer.ts';
import type { MemoryUse, OwnSize } from './own-files.ts';
import { ProcessorPins } from './processors.ts';
import { StorageGroups, storageGroup } from './storage-groups.ts';

/** Limits that can be set while a sandbox runs. */
export interface Limits {
  cpuCount: number;
  memoryMb: number;
  /** The sandbox runs only when no other process wants the processor. */
  background?: boolean;
  /** The processors that it may use, as `choose` returned them. Absent: every processor. */
  processors?: readonly number[];
}

/** Files with the usage counters of an instance. */
export interface UsageFiles {
  /** Version 1: nanoseconds. Version 2: a line `usage_usec <count>`. */
  cpu: string;
  memory: string;
  memoryStat: string;
}

const cpuPeriodMicroseconds = 100_000;
/** Memory that all sandboxes together leave to the host: the larger of these two values. */
const hostMemoryBytes = 512 * 1024 ** 2;
const hostMemoryFraction = 0.06;
/** The share of the machine's process numbers that sandboxes may have. */
const sandboxPidFraction = 0.75;
/** The share of the memory for socket buffers, which version 1 counts separately from other memory. */
const socketMemoryFraction = 1 / 8;
/** 4 KiB on x86-64; 4, 16 or 64 KiB on arm64. */
const pageBytes = (): number => koffi.load(null).func('int getpagesize()')();
/** The amount of memory that one `reclaim` gives back on version 2. */
const reclaimStep = '64M';

/**
 * Control groups of one copy's sandboxes: `<root>/<parent>/<instance>` in each hierarchy, on version 1, hybrid or 2.
 */
export class Cgroups {
  readonly pins: ProcessorPins;
  readonly storage: StorageGroups;
  readonly rates: DiskRateLimits;
  readonly freezer: GroupFreezer;
  readonly #tree: CgroupTree;

  constructor(parent: string, hierarchies?: Hierarchies) {
    const tree = new CgroupTree(parent, hierarchies);
    this.#tree = tree;
    this.pins = new ProcessorPins(tree);
    this.storage = new StorageGroups(tree);
    this.rates = new DiskRateLimits(tree);
    this.freezer = new GroupFreezer({ tree, storage: this.storage, rates: this.rates });
  }

  get version(): 1 | 2 {
    return this.#tree.version;
  }

  get hybridRoot(): string | null {
    return this.#tree.hybridRoot;
  }

  get parent(): string {
    return this.#tree.parent;
  }

  /** The folders of an instance in every hierarchy, even if they do not exist. */
  listFolders(instance: string): string[] {
    return this.#tree.listFolders(instance);
  }

  /**
   * Makes the copy's own groups. One is for shims, so that a service manager that ends the host worker does not end
   * them. One is the parent of all sandboxes, and leaves memory and process numbers to the host.
   */
  async prepare(): Promise<void> {
    for (const root of this.#tree.roots) await mkdir(path.join(root, this.parent), { recursive: true });
    for (const folder of this.#ownShimFolders()) await mkdir(folder, { recursive: true });
    if (this.version === 2) {
      const root = this.#tree.roots[0]!;
      await shareControllers(root, '+cpu +memory +pids').catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EBUSY') throw error;
        return leaveGroup(root);
      });
      for (const folder of [root, path.join(root, this.parent)]) {
        await shareControllers(folder, '+cpu +memory +pids');
        if (this.pins.arePossible) await shareControllers(folder, '+cpuset');
        if (this.#tree.has('io')) await shareControllers(folder, '+io');
      }
    }
    await this.pins.prepare();
    const kept = Math.max(hostMemoryBytes, os.totalmem() * hostMemoryFraction);
    const memoryBytes = String(Math.floor(os.totalmem() - kept));
    const processes = String(
      Math.floor(Math.min(kernelNumber('kernel/pid_max'), kernelNumber('kernel/threads-max')) * sandboxPidFraction),
    );
    const cpus = os.availableParallelism();
    const set = (controller: string, file: string, value: string) =>
      writeFile(this.#tree.file(controller, '', file), value);
    await set('pids', 'pids.max', processes);
    if (this.version === 2) {
      await set('memory', 'memory.max', memoryBytes);
      await set('cpu', 'cpu.weight', String(Math.min(10_000, 100 * cpus)));
    } else {
      await set('memory', 'memory.limit_in_bytes', memoryBytes);
      await set('cpu', 'cpu.shares', String(Math.min(262_144, 1024 * cpus)));
      // The kernel slows down every TCP connection at the second number of tcp_mem. It shows that number only in the
      // machine's own network namespace, so a host worker in another namespace sets no limit.
      if (existsSync('/proc/sys/net/ipv4/tcp_mem')) {
        await set('memory', socketLimitFile, String(kernelNumber('net/ipv4/tcp_mem') * pageBytes()));
      }
    }
  }

  /** The size of an instance according to the limits of the kernel. */
  readSize(instance: string): OwnSize {
    const name = this.version === 2 ? 'memory.max' : 'memory.limit_in_bytes';
    const memory = readFileSync(this.#tree.file('memory', instance, name), 'latin1');
    return { memoryMb: Math.floor(Number(memory) / 1024 ** 2), processors: this.pins.read(instance) };
  }

  /** The current use of an instance. */
  readUse(instance: string): GroupUse {
    const { memory, memoryStat } = this.usageFiles(instance);
    const time =
      this.version === 2
        ? this.#tree.file('cpu', instance, 'cpu.stat')
        : this.#tree.file('cpuacct', instance, 'cpuacct.stat');
    const read = (file: string) => readFileSync(file, 'latin1');
    const processes = read(this.#tree.file('pids', instance, 'pids.current'));
    return readGroupUse(this.version, {
      memory: read(memory),
      memoryStat: read(memoryStat),
      time: read(time),
      processes,
    });
  }

  /**
   * The groups that shims move to, outside the groups of the host worker: systemd ends all processes in its own
   * hierarchy, Docker in every hierarchy. In hierarchies of version 1 with limits it is the root, because a shim must
   * not be frozen with the sandboxes, and a new cpuset without processors accepts no process.
   */
  shimFolders(): string[] {
    const roots = this.version === 1 ? this.#tree.roots.filter((root) => !this.#isTracked(root)) : [];
    return [...this.#ownShimFolders(), ...roots];
  }

  #ownShimFolders(): string[] {
    return this.#tree.roots
      .filter((root) => this.#isTracked(root))
      .map((root) => path.join(root, this.parent, 'shims'));
  }

  /** Whether service managers search this hierarchy for the processes of a service. */
  #isTracked(root: string): boolean {
    return this.version === 2 || /\/(systemd|unified)$/.test(root);
  }

  /** The file with the list of an instance's processes. */
  processesFile(instance: string): string {
    return this.#tree.file('pids', instance, 'cgroup.procs');
  }

  /** The file that contains a line `oom_kill <count>`. */
  oomFile(instance: string): string {
    return this.#tree.file('memory', instance, this.version === 2 ? 'memory.events' : 'memory.oom_control');
  }

  usageFiles(instance: string): UsageFiles {
    const [cpuController, cpu, memory] =
      this.version === 2
        ? ['cpu', 'cpu.stat', 'memory.current']
        : ['cpuacct', 'cpuacct.usage', 'memory.usage_in_bytes'];
    return {
      cpu: this.#tree.file(cpuController!, instance, cpu!),
      memory: this.#tree.file('memory', instance, memory!),
      memoryStat: this.#tree.file('memory', instance, 'memory.stat'),
    };
  }

  /**
   * Makes the kernel give back the file cache of an instance: all of it on version 1, one step on version 2.
   * @returns whether more may be left
   */
  async reclaim(instance: string): Promise<boolean> {
    const [file, text] = this.version === 2 ? ['memory.reclaim', reclaimStep] : ['memory.force_empty', '0'];
    try {
      await writeFile(this.#tree.file('memory', instance, file!), text!);
      return this.version === 2;
    } catch (error) {
      // The kernel has found less than the step.
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN' || isGoneGroup(error)) return false;
      throw error;
    }
  }

  /** Bytes of files that an instance, or all of them (`''`), has written and that are not on the disk yet. */
  unwrittenBytes(instance: string): number {
    const names = this.version === 2 ? 'file_dirty|file_writeback' : 'total_dirty|total_writeback';
    try {
      const text = readFileSync(this.usageFiles(instance).memoryStat, 'latin1');
      const found = text.matchAll(new RegExp(`^(?:${names}) (\\d+)$`, 'gm'));
      return [...found].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
    } catch (error) {
      if (isGoneGroup(error)) return 0;
      throw error;
    }
  }

  /** What the kernel says about all sandboxes together. Null: version 1, or a kernel without pressure figures. */
  readPressure(): Pressure | null {
    if (this.version === 1) return null;
    const read = (controller: keyof Pressure) => {
      const text = readFileSync(this.#tree.file(controller, '', `${controller}.pressure`), 'latin1');
      return Number(/^some .*\bavg60=([\d.]+)/m.exec(text)![1]) / 100;
    };
    try {
      return { cpu: read('cpu'), memory: read('memory'), io: read('io') };
    } catch (error) {
      // The command line of the kernel has psi=0.
      if (isGoneGroup(error) || (error as NodeJS.ErrnoException).code === 'EOPNOTSUPP') return null;
      throw error;
    }
  }

  /**
   * Kills every process of an instance. On version 2 the kernel kills them together, also those that are just being
   * forked. On version 1, killed processes in a frozen group do not end, so they are first moved out of a closed fence.
   * @returns the number of processes
   */
  async kill(instance: string): Promise<number> {
    const pids = await this.readProcesses(instance);
    if (this.version === 1) for (const pid of pids) killIfThere(pid);
    else await writeFile(this.#tree.file('pids', instance, 'cgroup.kill'), '1').catch(ignoreGoneGroup);
    if (pids.length > 0) await this.rates.lift(instance);
    if (pids.length > 0) await this.freezer.thaw(instance);
    if (pids.length > 0 && this.version === 1 && this.freezer.isFenced) {
      const outside = path.join(this.#tree.controllerRoot('freezer'), 'cgroup.procs');
      for (const pid of pids) await writeFile(outside, String(pid)).catch(ignoreGoneProcess);
    }
    return pids.length;
  }

  /** The limits of a new container in the format of the OCI runtime specification. */
  resources(limits: Limits, processLimit: number): object {
    const memoryBytes = limits.memoryMb * 1024 * 1024;
    const swap = this.#tree.limitsSwap() ? { swap: memoryBytes } : {};
    return {
      memory: { limit: memoryBytes, ...swap, ...(this.version === 1 ? { kernelTCP: socketBytes(limits) } : {}) },
      cpu: {
        quota: cpuQuota(limits),
        period: cpuPeriodMicroseconds,
        shares: cpuShares(limits),
        ...(limits.processors && this.pins.arePossible ? { cpus: limits.processors.join(',') } : {}),
      },
      pids: { limit: processLimit },
      devices: [{ allow: false, access: 'rwm' }],
    };
  }

  /** Changes the limits of a running instance. */
  async setLimits(instance: string, limits: Limits): Promise<void> {
    const memoryBytes = String(limits.memoryMb * 1024 * 1024);
    const set = (controller: string, file: string, value: string) =>
      writeFile(this.#tree.file(controller, instance, file), value);
    if (this.version === 2) {
      await set('memory', 'memory.max', memoryBytes);
      await set('cpu', 'cpu.max', `${cpuQuota(limits)} ${cpuPeriodMicroseconds}`);
      await set('cpu', 'cpu.weight', String(cpuWeight(limits)));
      if (limits.processors) await this.pins.pin(instance, limits.processors);
      return;
    }
    const files = ['memory.limit_in_bytes', ...(this.#tree.limitsSwap() ? ['memory.memsw.limit_in_bytes'] : [])];
    // The second limit must never be below the first, so the order of the writes depends on the direction.
    const before = Number(await readFile(this.#tree.file('memory', instance, files[0]!), 'latin1'));
    if (Number(memoryBytes) > before) files.reverse();
    for (const file of files) await set('memory', file, memoryBytes);
    await set('memory', socketLimitFile, String(socketBytes(limits)));
    await set('cpu', 'cpu.cfs_quota_us', String(cpuQuota(limits)));
    await set('cpu', 'cpu.shares', String(cpuShares(limits)));
    if (limits.processors) await this.pins.pin(instance, limits.processors);
  }

  /** Host process numbers of the processes in an instance. */
  async readProcesses(instance: string): Promise<number[]> {
    return readPids(this.processesFile(instance));
  }

  /**
   * Ends every process of an instance and removes its groups.
   * @throws {Error} when one of its processes does not end
   */
  async destroy(instance: string): Promise<void> {
    this.pins.forget(instance);
    const ended = await until(async () => (await this.kill(instance)) + (await this.storage.kill(instance)) === 0, {
      timeoutSeconds: 10,
      everyMs: 10,
    });
    if (!ended) throw new Error(`processes in the control group of ${instance} do not end`);
    await this.storage.remove(instance);
    for (const folder of this.listFolders(instance)) await removeTree(folder);
  }

  /** Names of the instances that have a group in any hierarchy. */
  async instances(): Promise<string[]> {
    const names = new Set<string>();
    for (const root of this.#tree.roots) {
      const folder = path.join(root, this.parent);
      for (const name of await foldersBelow(folder)) if (name !== 'shims' && name !== storageGroup) names.add(name);
      for (const name of await foldersBelow(path.join(folder, storageGroup))) names.add(name);
    }
    return [...names];
  }

  /** Removes the copy's own groups. Its instances must be gone. */
  async teardown(): Promise<void> {
    for (const folder of this.#ownShimFolders()) await removeGroup(folder);
    for (const root of this.#tree.roots) {
      await removeTree(path.join(root, this.parent, storageGroup));
      await removeGroup(path.join(root, this.parent));
    }
  }
}

/** The maximum number of rounds that move processes. A process may fork during a move. */
const leaveRounds = 100;

/** Lets the groups in a group have limits of these controllers. */
const shareControllers = (folder: string, controllers: string) =>
  writeFile(path.join(folder, 'cgroup.subtree_control'), controllers);

/**
 * Moves the processes of a group into a new group in it. In a namespace of control groups, such as a container's, the
 * root has processes, and a group with processes cannot share its controllers.
 */
async function leaveGroup(folder: string): Promise<void> {
  const inner = path.join(folder, 'init');
  await mkdir(inner, { recursive: true });
  for (let round = 0; round < leaveRounds; round += 1) {
    const pids = await readPids(path.join(folder, 'cgroup.procs'));
    if (pids.length === 0) return;
    for (const pid of pids) await writeFile(path.join(inner, 'cgroup.procs'), String(pid)).catch(ignoreGoneProcess);
  }
}

const socketLimitFile = 'memory.kmem.tcp.limit_in_bytes';
const socketBytes = ({ memoryMb }: Limits) => Math.floor(memoryMb * 1024 * 1024 * socketMemoryFraction);
const cpuQuota = ({ cpuCount }: Limits) => Math.round(cpuCount * cpuPeriodMicroseconds);
const cpuShares = ({ cpuCount, background }: Limits) =>
  background ? 2 : Math.max(2, Math.min(262_144, Math.round(cpuCount * 1024)));
/** The conversion of version 1 shares that container runtimes use. */
const cpuWeight = (limits: Limits) => 1 + Math.floor(((cpuShares(limits) - 2) * 9999) / 262_142);

/** The first number in a file below /proc/sys. */
const kernelNumber = (name: string) => Number.parseInt(readFileSync(`/proc/sys/${name}`, 'latin1'), 10);

/** The use of one sandbox according to its control groups, in the units of `OwnUse`. */
interface GroupUse {
  memory: MemoryUse;
  user: number;
  system: number;
  processes: number;
}

/**
 * Reads the texts of the files of a sandbox's control groups.
 * @param texts.memory bytes
 * @param texts.time `cpuacct.stat` of version 1, `cpu.stat` of version 2
 */
function readGroupUse(
  version: 1 | 2,
  texts: { memory: string; memoryStat: string; time: string; processes: string },
): GroupUse {
  const kib = (name: string) => Math.floor(numberIn(texts.memoryStat, name) / 1024);
  const [prefix, cache, anonymous, mapped] =
    version === 2 ? ['', 'file', 'anon', 'file_mapped'] : ['total_', 'total_cache', 'total_rss', 'total_mapped_file'];
  const time = (name: string) =>
    version === 2 ? Math.floor(numberIn(texts.time, `${name}_usec`) / 10_000) : numberIn(texts.time, name);
  return {
    memory: {
      total: Math.floor(Number(texts.memory) / 1024),
      cache: kib(cache),
      anonymous: kib(anonymous),
      shared: kib(`${prefix}shmem`),
      mapped: kib(mapped),
      activeAnonymous: kib(`${prefix}active_anon`),
      inactiveAnonymous: kib(`${prefix}inactive_anon`),
      activeFile: kib(`${prefix}active_file`),
      inactiveFile: kib(`${prefix}inactive_file`),
    },
    user: time('user'),
    system: time('system'),
    processes: Number(texts.processes),
  };
}

/** The number in the line `<name> <number>`. 0 if there is none. */
function numberIn(text: string, name: string): number {
  const at = `\n${text}`.indexOf(`\n${name} `);
  return at < 0 ? 0 : Number.parseInt(text.slice(at + name.length + 1), 10);
}
