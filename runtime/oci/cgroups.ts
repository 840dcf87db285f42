import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { DiskRates } from '../../domain/billing/plans.ts';
import { uninterruptibleWait } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import { limitedDevices, noRates, rateFiles, rateTexts } from './disk-rates.ts';
import type { OwnSize } from './own-files.ts';
import { type GroupUse, readGroupUse } from './own-use.ts';
import { chooseProcessors, readProcessorList } from './processors.ts';

/** The hierarchies mounted on this machine. */
interface Hierarchies {
  version: 1 | 2;
  /** Every mounted hierarchy. Version 2 has only one. */
  roots: string[];
  /** The hierarchy of version 2 when it is mounted beside version 1. */
  hybridRoot: string | null;
}

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

/** The groups of the processes of one bucket: s3fs and its relay. */
export interface MountGroups {
  /** The path in the form of the container runtime. It is the same in every hierarchy. */
  runtimePath: string;
  /** Folders that must exist before the processes start. */
  made: string[];
  /** The folders that the relay joins. */
  relay: string[];
  /** The group below the sandbox's own to which s3fs is moved after the runtime has started it. Only on version 1. */
  charged: string[];
  /** Files in the folders, and the text to write to each. */
  limits: [file: string, text: string][];
  /** All folders, to be removed when the processes have ended. */
  all: string[];
  /** The group that is never frozen. Only on version 1. */
  freezerRoot: string | null;
}

/**
 * The parent of the groups of buckets. They are outside the sandboxes' own groups, so that each is frozen separately.
 */
const storageGroup = 'storage';
/** CPU weight within the sandbox. Each of the sandbox's own processes has 1024. */
const storageCpuShares = 4096;
const cpuPeriodMicroseconds = 100_000;
/** Memory that all sandboxes together leave to the host: the larger of these two values. */
const hostMemoryBytes = 512 * 1024 ** 2;
const hostMemoryFraction = 0.06;
/** The share of the machine's process numbers that sandboxes may have. */
const sandboxPidFraction = 0.75;
/** The share of the memory for socket buffers, which version 1 counts separately from other memory. */
const socketMemoryFraction = 1 / 8;
const pageBytes = 4096;
/**
 * The maximum number of rounds that move processes. A process may fork during a move, and each round leaves fewer that
 * can.
 */
const gatherRounds = 100;
const writeErrorsOfGoneGroup = new Set(['ENOENT', 'ENODEV']);

/**
 * Control groups of one copy's sandboxes: `<root>/<parent>/<instance>` in each hierarchy, on version 1, hybrid or 2.
 */
export class Cgroups {
  readonly version: 1 | 2;
  readonly hybridRoot: string | null;
  readonly parent: string;
  readonly #roots: string[];
  /** The processors for sandboxes. Null: not read yet. */
  #processors: readonly number[] | null = null;
  /** The processors of the instances that may not use all of them. */
  readonly #pins = new Map<string, readonly number[]>();

  constructor(parent: string, hierarchies: Hierarchies = findHierarchies()) {
    this.parent = parent;
    this.version = hierarchies.version;
    this.hybridRoot = hierarchies.hybridRoot;
    this.#roots = hierarchies.roots;
  }

  /**
   * Makes the copy's own groups. One is for shims, so that a service manager that ends the host worker does not end
   * them. One is the parent of all sandboxes, and leaves memory and process numbers to the host.
   */
  async prepare(): Promise<void> {
    for (const root of this.#roots) await mkdir(path.join(root, this.parent), { recursive: true });
    for (const folder of this.#ownShimFolders()) await mkdir(folder, { recursive: true });
    if (this.version === 2) {
      for (const folder of [this.#roots[0]!, path.join(this.#roots[0]!, this.parent)]) {
        await writeFile(path.join(folder, 'cgroup.subtree_control'), '+cpu +memory +pids');
        if (this.#pinsProcessors()) await writeFile(path.join(folder, 'cgroup.subtree_control'), '+cpuset');
        if (this.#controllers().includes('io')) await writeFile(path.join(folder, 'cgroup.subtree_control'), '+io');
      }
    }
    await this.#prepareProcessors();
    const kept = Math.max(hostMemoryBytes, os.totalmem() * hostMemoryFraction);
    const memoryBytes = String(Math.floor(os.totalmem() - kept));
    const processes = String(
      Math.floor(Math.min(kernelNumber('kernel/pid_max'), kernelNumber('kernel/threads-max')) * sandboxPidFraction),
    );
    const cpus = os.availableParallelism();
    const set = (controller: string, file: string, value: string) => writeFile(this.#file(controller, '', file), value);
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
        await set('memory', socketLimitFile, String(kernelNumber('net/ipv4/tcp_mem') * pageBytes));
      }
    }
  }

  /** Whether this machine can restrict a group to processors. */
  #pinsProcessors(): boolean {
    if (this.version === 1) return this.#roots.some((root) => path.basename(root).split(',').includes('cpuset'));
    return this.#controllers().includes('cpuset');
  }

  /** The controllers of version 2. */
  #controllers(): string[] {
    return readFileSync(path.join(this.#roots[0]!, 'cgroup.controllers'), 'latin1').split(/\s+/);
  }

  async #prepareProcessors(): Promise<void> {
    if (!this.#pinsProcessors()) return;
    if (this.version === 2) {
      this.#processors = readProcessorList(await readFile(this.#file('cpuset', '', 'cpuset.cpus.effective'), 'latin1'));
      return;
    }
    // A new group of version 1 has neither processors nor memory, and so would the groups below it.
    const root = this.#controllerRoot('cpuset');
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      const own = this.#file('cpuset', '', name);
      if ((await readFile(own, 'latin1')).trim() === '')
        await writeFile(own, await readFile(path.join(root, name), 'latin1'));
    }
    this.#processors = readProcessorList(await readFile(this.#file('cpuset', '', 'cpuset.cpus'), 'latin1'));
  }

  /** The processors that sandboxes may use. */
  processors(): readonly number[] {
    this.#processors ??= Array.from({ length: os.availableParallelism() }, (_, number) => number);
    return this.#processors;
  }

  /** Selects the processors of an instance: as many as it has cores, those with the fewest other instances. */
  choose(instance: string, cpuCount: number): readonly number[] {
    const all = this.processors();
    if (cpuCount >= all.length || !this.#pinsProcessors()) return all;
    this.#pins.delete(instance);
    const chosen = chooseProcessors(all, this.#pins.values(), Math.ceil(cpuCount));
    this.#pins.set(instance, chosen);
    return chosen;
  }

  /** Restricts an instance to these processors. Its processes move at once. */
  async pin(instance: string, processors: readonly number[]): Promise<void> {
    if (!this.#pinsProcessors()) return;
    if (processors.length < this.processors().length) this.#pins.set(instance, processors);
    else this.#pins.delete(instance);
    await writeFile(this.#file('cpuset', instance, 'cpuset.cpus'), processors.join(',')).catch(ignoreGoneGroup);
  }

  /** The size of an instance according to the limits of the kernel. */
  sizeOf(instance: string): OwnSize {
    const [memory, cpus] =
      this.version === 2 ? ['memory.max', 'cpuset.cpus.effective'] : ['memory.limit_in_bytes', 'cpuset.cpus'];
    const read = (controller: string, name: string) => readFileSync(this.#file(controller, instance, name), 'latin1');
    const all = this.processors();
    const processors = this.#pinsProcessors() ? readProcessorList(read('cpuset', cpus!)) : all;
    if (processors.length < all.length) this.#pins.set(instance, processors);
    return { memoryMb: Math.floor(Number(read('memory', memory!)) / 1024 ** 2), processors };
  }

  /** The current use of an instance. */
  useOf(instance: string): GroupUse {
    const { memory, memoryStat } = this.usageFiles(instance);
    const time =
      this.version === 2 ? this.#file('cpu', instance, 'cpu.stat') : this.#file('cpuacct', instance, 'cpuacct.stat');
    const read = (file: string) => readFileSync(file, 'latin1');
    const processes = read(this.#file('pids', instance, 'pids.current'));
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
    const roots = this.version === 1 ? this.#roots.filter((root) => !this.#isTracked(root)) : [];
    return [...this.#ownShimFolders(), ...roots];
  }

  #ownShimFolders(): string[] {
    return this.#roots.filter((root) => this.#isTracked(root)).map((root) => path.join(root, this.parent, 'shims'));
  }

  /** Whether service managers search this hierarchy for the processes of a service. */
  #isTracked(root: string): boolean {
    return this.version === 2 || /\/(systemd|unified)$/.test(root);
  }

  /** The folders of an instance in every hierarchy, even if they do not exist. */
  foldersOf(instance: string): string[] {
    return this.#roots.map((root) => path.join(root, this.parent, instance));
  }

  /**
   * The groups of a bucket's processes. They are frozen separately from the sandbox: after the sandbox, because its
   * processes may wait for them, and because a new bucket is mounted while the sandbox is frozen. Their use is charged
   * to the sandbox and limited below it. (Version 2 has only one hierarchy, so there they have the same limits but
   * count separately from the sandbox.)
   */
  mountGroups(instance: string, name: string, limit: { memoryBytes: number; processes: number }): MountGroups {
    const apart = path.join(storageGroup, instance, name);
    const inAll = (relative: string) => this.#roots.map((root) => path.join(root, this.parent, relative));
    const runtimePath = `/${path.join(this.parent, apart)}`;
    if (this.version === 2) {
      const relay = inAll(`${apart}-relay`);
      const all = [...inAll(apart), ...relay];
      return { runtimePath, made: relay, relay, charged: [], limits: [], all, freezerRoot: null };
    }
    const charged = [...new Set(['memory', 'cpu', 'cpuacct', 'pids'].map((each) => this.#file(each, instance, name)))];
    const frozen = path.join(this.#controllerRoot('freezer'), this.parent, `${apart}-relay`);
    const memory = String(limit.memoryBytes);
    const limits: [string, string][] = [
      [this.#file('memory', path.join(instance, name), 'memory.limit_in_bytes'), memory],
      [this.#file('pids', path.join(instance, name), 'pids.max'), String(limit.processes)],
    ];
    // Processes that wait for a bucket must not take processor time from the processes that serve it.
    limits.push([this.#file('cpu', path.join(instance, name), 'cpu.shares'), String(storageCpuShares)]);
    if (this.#limitsSwap()) {
      limits.splice(1, 0, [this.#file('memory', path.join(instance, name), 'memory.memsw.limit_in_bytes'), memory]);
    }
    return {
      runtimePath,
      made: [...charged, frozen],
      relay: [...charged, frozen],
      charged,
      limits,
      all: [...charged, frozen, ...inAll(apart)],
      freezerRoot: this.#controllerRoot('freezer'),
    };
  }

  /** Names of the groups of a sandbox's buckets, in the form of instances. */
  async #storageOf(instance: string): Promise<string[]> {
    const names = new Set<string>();
    for (const folder of this.foldersOf(path.join(storageGroup, instance))) {
      for (const each of await foldersBelow(folder)) names.add(path.join(storageGroup, instance, each));
    }
    return [...names];
  }

  /** Host process numbers of the processes that serve buckets of a sandbox, by the sandbox's instance. */
  async storageProcessesOf(instance: string): Promise<number[]> {
    const pids = new Set<number>();
    for (const group of await this.#storageOf(instance)) {
      for (const pid of await readPids(this.#file('freezer', group, 'cgroup.procs'))) pids.add(pid);
    }
    return [...pids];
  }

  /** Thaws the processes of a sandbox's buckets. The sandbox may stay frozen. */
  async thawStorage(instance: string): Promise<void> {
    for (const group of await this.#storageOf(instance)) await this.#setFrozen(group, false);
  }

  /**
   * The files that freeze and thaw a sandbox and its buckets. The buckets come first, because the sandbox may wait for
   * them.
   */
  async freezerFiles(instance: string): Promise<string[]> {
    return [...(await this.#storageOf(instance)), instance].map((group) => this.freezerFile(group));
  }

  async #freezeStorage(instance: string, timeoutSeconds: number): Promise<boolean> {
    const groups = await this.#storageOf(instance);
    for (const group of groups) await this.#setFrozen(group, true);
    const frozen = (group: string) => this.isFrozen(group) || !existsSync(this.freezerFile(group));
    return until(() => groups.every(frozen), { timeoutSeconds, everyMs: 2 });
  }

  async #setFrozen(instance: string, frozen: boolean): Promise<void> {
    const text = this.version === 2 ? (frozen ? '1' : '0') : frozen ? 'FROZEN' : 'THAWED';
    await writeFile(this.freezerFile(instance), text).catch((error: NodeJS.ErrnoException) => {
      if (!writeErrorsOfGoneGroup.has(error.code ?? '')) throw error;
    });
  }

  /** The file with the list of an instance's processes. */
  processesFile(instance: string): string {
    return this.#file('pids', instance, 'cgroup.procs');
  }

  /** The file that contains a line `oom_kill <count>`. */
  oomFile(instance: string): string {
    return this.#file('memory', instance, this.version === 2 ? 'memory.events' : 'memory.oom_control');
  }

  usageFiles(instance: string): UsageFiles {
    const [cpuController, cpu, memory] =
      this.version === 2
        ? ['cpu', 'cpu.stat', 'memory.current']
        : ['cpuacct', 'cpuacct.usage', 'memory.usage_in_bytes'];
    return {
      cpu: this.#file(cpuController!, instance, cpu!),
      memory: this.#file('memory', instance, memory!),
      memoryStat: this.#file('memory', instance, 'memory.stat'),
    };
  }

  freezerFile(instance: string): string {
    return this.#file('freezer', instance, this.version === 2 ? 'cgroup.freeze' : 'freezer.state');
  }

  /** The file that freezes the group of all sandboxes, and the text to write there. */
  get fence(): { file: string; text: string } {
    return { file: this.freezerFile(''), text: this.version === 2 ? '1' : 'FROZEN' };
  }

  /** Whether a freeze was requested. A process in a system call freezes when the call ends. */
  get isFenced(): boolean {
    const file = this.version === 2 ? 'cgroup.freeze' : 'freezer.self_freezing';
    try {
      return readFileSync(this.#file('freezer', '', file), 'latin1').trim() === '1';
    } catch (error) {
      if (writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) return false;
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
      if (writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) return 0;
      throw error;
    }
  }

  /** Freezes every process of an instance, and returns before all of them are frozen. */
  async halt(instance: string): Promise<void> {
    try {
      await writeFile(this.freezerFile(instance), this.version === 2 ? '1' : 'FROZEN');
    } catch (error) {
      if (!writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }

  async liftFence(): Promise<void> {
    await this.#setFrozen('', false);
  }

  /** Whether this machine can limit the rates at which an instance uses its disk. Call it after `prepare`. */
  get limitsDiskRates(): boolean {
    return existsSync(this.rateFilesOf('')[0] ?? '');
  }

  /** The files that limit the rates of an instance's disk. Empty: there is no such controller. */
  rateFilesOf(instance: string): string[] {
    const isThere = this.version === 2 || this.#roots.some((root) => path.basename(root).split(',').includes('blkio'));
    return isThere ? rateFiles[this.version].map((name) => this.#file('blkio', instance, name)) : [];
  }

  /** The text that `rateFilesOf` take after a device to remove its limits. */
  get noRates(): string {
    return noRates[this.version];
  }

  /**
   * Limits the rates at which an instance uses a disk. Does nothing on a machine that cannot limit them.
   * @param device `<major>:<minor>`
   */
  async setDiskRates(instance: string, device: string, rates: DiskRates): Promise<void> {
    if (!this.limitsDiskRates) return;
    const texts = rateTexts(this.version, rates);
    await Promise.all(
      this.rateFilesOf(instance).map((file, at) => writeFile(file, `${device} ${texts[at]}`).catch(ignoreGoneGroup)),
    );
  }

  /**
   * Removes the limits of an instance's disk. A process that waits for its disk can be neither frozen nor ended, and
   * the limit can make this wait long.
   * @returns sets them again
   */
  async liftDiskRates(instance: string): Promise<() => Promise<void>> {
    const lines: { file: string; device: string; limits: string }[] = [];
    for (const file of this.rateFilesOf(instance)) {
      const text = await readFile(file, 'latin1').catch((error: NodeJS.ErrnoException) => {
        ignoreGoneGroup(error);
        return '';
      });
      lines.push(...limitedDevices(text).map((each) => ({ file, ...each })));
    }
    const write = (file: string, text: string) => writeFile(file, text).catch(ignoreGoneGroup);
    await Promise.all(lines.map(({ file, device }) => write(file, `${device} ${this.noRates}`)));
    return async () => {
      await Promise.all(lines.map(({ file, device, limits }) => write(file, `${device} ${limits}`)));
    };
  }

  /**
   * Kills every process of an instance. On version 1, killed processes in a frozen group do not end, so they are first
   * moved out of a closed fence.
   * @returns the number of processes
   */
  async kill(instance: string): Promise<number> {
    const pids = await this.processesOf(instance);
    for (const pid of pids) killIfThere(pid);
    if (pids.length > 0) await this.liftDiskRates(instance);
    if (pids.length > 0) await this.thaw(instance);
    if (pids.length > 0 && this.version === 1 && this.isFenced) {
      const outside = path.join(this.#controllerRoot('freezer'), 'cgroup.procs');
      for (const pid of pids) await writeFile(outside, String(pid)).catch(ignoreGoneProcess);
    }
    return pids.length;
  }

  get thawedText(): string {
    return this.version === 2 ? '0' : 'THAWED';
  }

  /**
   * Freezes every process of an instance.
   * @param servers processes of the instance on which others may wait. A waiting process cannot be frozen, so these
   * servers are frozen last. Version 2 cannot order the processes.
   * @param signal ends the wait for the kernel
   * @returns false when the kernel did not freeze all of them in time; then they run again
   */
  async freeze(
    instance: string,
    timeoutSeconds: number,
    servers: readonly number[] = [],
    signal?: AbortSignal,
  ): Promise<boolean> {
    const limitAgain = await this.liftDiskRates(instance);
    try {
      return await this.#freezeAll(instance, timeoutSeconds, servers, signal);
    } finally {
      await limitAgain();
    }
  }

  async #freezeAll(
    instance: string,
    timeoutSeconds: number,
    servers: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const ordered = this.version === 1 && servers.length > 0;
    const isDone = () => this.isFrozen(instance) || signal?.aborted === true;
    const frozen = async () => (await until(isDone, { timeoutSeconds, everyMs: 2 })) && this.isFrozen(instance);
    if (ordered) await this.#moveIn('freezer', '', servers);
    await writeFile(this.freezerFile(instance), this.version === 2 ? '1' : 'FROZEN');
    let done = await frozen();
    if (!done) await this.thaw(instance);
    if (ordered) {
      await this.#gather(instance);
      done &&= await frozen();
    }
    done &&= await this.#freezeStorage(instance, timeoutSeconds);
    if (!done) await this.thaw(instance);
    return done;
  }

  /** Moves processes back that were moved out of the freezer, together with their new children. */
  async #gather(instance: string): Promise<void> {
    const inside = path.join(path.dirname(this.freezerFile(instance)), 'cgroup.procs');
    for (let round = 0; round < gatherRounds; round += 1) {
      const there = new Set((await readFile(inside, 'latin1')).split('\n').filter(Boolean).map(Number));
      const outside = (await this.processesOf(instance)).filter((pid) => !there.has(pid));
      if (outside.length === 0) return;
      await this.#moveIn('freezer', instance, outside);
    }
  }

  async #moveIn(controller: string, instance: string, pids: readonly number[]): Promise<void> {
    const file = this.#file(controller, instance, 'cgroup.procs');
    for (const pid of pids) await writeFile(file, String(pid)).catch(ignoreGoneProcess);
  }

  async thaw(instance: string): Promise<void> {
    await this.thawStorage(instance);
    await this.#setFrozen(instance, false);
  }

  isFrozen(instance: string): boolean {
    try {
      if (this.version === 1) return readFileSync(this.freezerFile(instance), 'latin1').trim() === 'FROZEN';
      return /^frozen 1$/m.test(readFileSync(this.#file('freezer', instance, 'cgroup.events'), 'latin1'));
    } catch (error) {
      if (writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) return false;
      throw error;
    }
  }

  /** The limits of a new container in the format of the OCI runtime specification. */
  resources(limits: Limits, processLimit: number): object {
    const memoryBytes = limits.memoryMb * 1024 * 1024;
    const swap = this.#limitsSwap() ? { swap: memoryBytes } : {};
    return {
      memory: { limit: memoryBytes, ...swap, ...(this.version === 1 ? { kernelTCP: socketBytes(limits) } : {}) },
      cpu: {
        quota: cpuQuota(limits),
        period: cpuPeriodMicroseconds,
        shares: cpuShares(limits),
        ...(limits.processors && this.#pinsProcessors() ? { cpus: limits.processors.join(',') } : {}),
      },
      pids: { limit: processLimit },
      devices: [{ allow: false, access: 'rwm' }],
    };
  }

  /** Changes the limits of a running instance. */
  async setLimits(instance: string, limits: Limits): Promise<void> {
    const memoryBytes = String(limits.memoryMb * 1024 * 1024);
    const set = (controller: string, file: string, value: string) =>
      writeFile(this.#file(controller, instance, file), value);
    if (this.version === 2) {
      await set('memory', 'memory.max', memoryBytes);
      await set('cpu', 'cpu.max', `${cpuQuota(limits)} ${cpuPeriodMicroseconds}`);
      await set('cpu', 'cpu.weight', String(cpuWeight(limits)));
      if (limits.processors) await this.pin(instance, limits.processors);
      return;
    }
    const files = ['memory.limit_in_bytes', ...(this.#limitsSwap() ? ['memory.memsw.limit_in_bytes'] : [])];
    // The second limit must never be below the first, so the order of the writes depends on the direction.
    const before = Number(await readFile(this.#file('memory', instance, files[0]!), 'latin1'));
    if (Number(memoryBytes) > before) files.reverse();
    for (const file of files) await set('memory', file, memoryBytes);
    await set('memory', socketLimitFile, String(socketBytes(limits)));
    await set('cpu', 'cpu.cfs_quota_us', String(cpuQuota(limits)));
    await set('cpu', 'cpu.shares', String(cpuShares(limits)));
    if (limits.processors) await this.pin(instance, limits.processors);
  }

  /** Host process numbers of the processes in an instance. */
  async processesOf(instance: string): Promise<number[]> {
    return readPids(this.processesFile(instance));
  }

  /** The kernel functions in which threads of an instance or of its buckets wait, so that they cannot be frozen. */
  async unfreezableWaits(instance: string): Promise<string[]> {
    const waits = new Set<string>();
    for (const group of [instance, ...(await this.#storageOf(instance))]) {
      const threads = await readPids(this.#file('freezer', group, this.version === 2 ? 'cgroup.threads' : 'tasks'));
      for (const thread of threads) waits.add(uninterruptibleWait(thread) ?? '');
    }
    return [...waits].filter(Boolean).sort();
  }

  /**
   * Ends every process of an instance and removes its groups.
   * @throws {Error} when one of its processes does not end
   */
  async destroy(instance: string): Promise<void> {
    this.#pins.delete(instance);
    const ended = await until(async () => (await this.kill(instance)) + (await this.#killStorage(instance)) === 0, {
      timeoutSeconds: 10,
      everyMs: 10,
    });
    if (!ended) throw new Error(`processes in the control group of ${instance} do not end`);
    for (const folder of this.foldersOf(path.join(storageGroup, instance))) await removeTree(folder);
    for (const folder of this.foldersOf(instance)) await removeTree(folder);
  }

  /** Kills the processes that serve the buckets of a sandbox, after moving them out of its frozen groups. */
  async #killStorage(instance: string): Promise<number> {
    const pids = await this.storageProcessesOf(instance);
    for (const pid of pids) killIfThere(pid);
    if (pids.length > 0 && this.version === 1) {
      const outside = path.join(this.#controllerRoot('freezer'), 'cgroup.procs');
      for (const pid of pids) await writeFile(outside, String(pid)).catch(ignoreGoneProcess);
    }
    return pids.length;
  }

  /** Names of the instances that have a group in any hierarchy. */
  async instances(): Promise<string[]> {
    const names = new Set<string>();
    for (const root of this.#roots) {
      const folder = path.join(root, this.parent);
      for (const name of await foldersBelow(folder)) if (name !== 'shims' && name !== storageGroup) names.add(name);
      for (const name of await foldersBelow(path.join(folder, storageGroup))) names.add(name);
    }
    return [...names];
  }

  /** Removes the copy's own groups. Its instances must be gone. */
  async teardown(): Promise<void> {
    for (const folder of this.#ownShimFolders()) await removeGroup(folder);
    for (const root of this.#roots) {
      await removeTree(path.join(root, this.parent, storageGroup));
      await removeGroup(path.join(root, this.parent));
    }
  }

  #file(controller: string, instance: string, name: string): string {
    const root = this.version === 2 ? this.#roots[0]! : this.#controllerRoot(controller);
    return path.join(root, this.parent, instance, name);
  }

  #controllerRoot(controller: string): string {
    const root = this.#roots.find((each) => path.basename(each).split(',').includes(controller));
    if (!root) throw new Error(`the ${controller} controller of control groups is not mounted`);
    return root;
  }

  #limitsSwap(): boolean {
    if (this.version === 2) return existsSync('/proc/swaps');
    return existsSync(path.join(this.#controllerRoot('memory'), 'memory.memsw.limit_in_bytes'));
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

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function ignoreGoneGroup(error: NodeJS.ErrnoException): void {
  if (!writeErrorsOfGoneGroup.has(error.code ?? '')) throw error;
}

function ignoreGoneProcess(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ESRCH') throw error;
}

async function readPids(file: string): Promise<number[]> {
  try {
    const text = await readFile(file, 'latin1');
    return text.split('\n').filter(Boolean).map(Number);
  } catch (error) {
    if (writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}

/** Names of the groups in a group. Empty when the group does not exist. */
async function foldersBelow(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  } catch (error) {
    if (writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}

/** Removes a group and the groups in it. */
async function removeTree(folder: string): Promise<void> {
  for (const name of await foldersBelow(folder)) await removeTree(path.join(folder, name));
  await removeGroup(folder);
}

async function removeGroup(folder: string): Promise<void> {
  const removed = await until(
    async () => {
      try {
        await rmdir(folder);
        return true;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT') return true;
        if (code === 'EBUSY') return false;
        throw error;
      }
    },
    { timeoutSeconds: 2, everyMs: 5 },
  );
  if (!removed) throw new Error(`control group ${folder} stays busy`);
}

/** Reads where control groups are mounted. */
function findHierarchies(): Hierarchies {
  const roots: string[] = [];
  let unified: string | null = null;
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [before, after] = line.split(' - ');
    const target = before?.split(' ')[4];
    const type = after?.split(' ')[0];
    if (!target?.startsWith('/sys/fs/cgroup')) continue;
    if (type === 'cgroup2') unified = target;
    else if (type === 'cgroup') roots.push(target);
  }
  if (roots.length === 0) {
    if (!unified) throw new Error('control groups are not mounted at /sys/fs/cgroup');
    return { version: 2, roots: [unified], hybridRoot: null };
  }
  return { version: 1, roots: unified ? [...roots, unified] : roots, hybridRoot: unified };
}
