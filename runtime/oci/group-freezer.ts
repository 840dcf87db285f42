import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { uninterruptibleWait } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import {
  type CgroupTree,
  ignoreGoneGroup,
  ignoreGoneProcess,
  isGoneGroup,
  readPids,
  removeGroup,
} from './cgroup-tree.ts';
import type { DiskRateLimits } from './disk-rates.ts';
import type { StorageGroups } from './storage-groups.ts';

/**
 * The maximum number of rounds that move processes. A process may fork during a move, and each round leaves fewer that
 * can.
 */
const moveRounds = 100;
/** On version 2, the group inside an instance that is frozen before the rest of the instance. It exists only meanwhile. */
const clientsGroup = 'clients';

/** Freezes and thaws instances, and the processes of their buckets. */
export class GroupFreezer {
  readonly #tree: CgroupTree;
  readonly #storage: StorageGroups;
  readonly #rates: DiskRateLimits;

  constructor(parts: { tree: CgroupTree; storage: StorageGroups; rates: DiskRateLimits }) {
    this.#tree = parts.tree;
    this.#storage = parts.storage;
    this.#rates = parts.rates;
  }

  get thawedText(): string {
    return this.#tree.version === 2 ? '0' : 'THAWED';
  }

  /**
   * Freezes every process of an instance.
   * @param servers processes of the instance on which others may wait. A waiting process cannot be frozen, so these
   * servers are frozen last.
   * @param signal ends the wait for the kernel
   * @returns false when the kernel did not freeze all of them in time; then they run again
   */
  async freeze(
    instance: string,
    timeoutSeconds: number,
    servers: readonly number[] = [],
    signal?: AbortSignal,
  ): Promise<boolean> {
    const limitAgain = await this.#rates.lift(instance);
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
    const isDone = (group: string) => this.isFrozen(group) || signal?.aborted === true;
    const frozen = async (group: string) =>
      (await until(() => isDone(group), { timeoutSeconds, everyMs: 2 })) && this.isFrozen(group);
    const freezeGroup = async (group: string) => {
      await writeFile(this.stateFile(group), this.#tree.version === 2 ? '1' : 'FROZEN');
      return frozen(group);
    };
    let done: boolean;
    if (servers.length === 0) done = await freezeGroup(instance);
    else if (this.#tree.version === 2) {
      const clients = path.join(instance, clientsGroup);
      await mkdir(this.#folder(clients), { recursive: true });
      await this.#moveAll(instance, clients, servers);
      done = (await freezeGroup(clients)) && (await freezeGroup(instance));
      if (done) await this.dissolveClients(instance);
    } else {
      await this.#moveIn('', servers);
      done = await freezeGroup(instance);
      if (!done) await this.thaw(instance);
      await this.#gather(instance);
      done &&= await frozen(instance);
    }
    done &&= await this.#freezeStorage(instance, timeoutSeconds);
    if (!done) await this.thaw(instance);
    return done;
  }

  /** Moves processes back that were moved out of the freezer of version 1, together with their new children. */
  async #gather(instance: string): Promise<void> {
    for (let round = 0; round < moveRounds; round += 1) {
      const there = new Set(await readPids(path.join(this.#folder(instance), 'cgroup.procs')));
      const all = await readPids(this.#tree.file('pids', instance, 'cgroup.procs'));
      const outside = all.filter((pid) => !there.has(pid));
      if (outside.length === 0) return;
      await this.#moveIn(instance, outside);
    }
  }

  /**
   * Removes the inner group, which is left when a worker dies during a pause. Its processes stay frozen if the instance is
   * frozen.
   */
  async dissolveClients(instance: string): Promise<void> {
    const clients = path.join(instance, clientsGroup);
    if (this.#tree.version === 1 || !existsSync(this.#folder(clients))) return;
    await this.#setFrozen(clients, false);
    await this.#moveAll(clients, instance);
    await removeGroup(this.#folder(clients));
  }

  async #moveAll(from: string, to: string, except: readonly number[] = []): Promise<void> {
    for (let round = 0; round < moveRounds; round += 1) {
      const pids = await readPids(path.join(this.#folder(from), 'cgroup.procs'));
      const others = pids.filter((pid) => !except.includes(pid));
      if (others.length === 0) return;
      await this.#moveIn(to, others);
    }
  }

  /** On version 1, only the freezer changes. */
  async #moveIn(group: string, pids: readonly number[]): Promise<void> {
    const file = path.join(this.#folder(group), 'cgroup.procs');
    for (const pid of pids) await writeFile(file, String(pid)).catch(ignoreGoneProcess);
  }

  /** The folder of a group in the hierarchy of the freezer. */
  #folder(group: string): string {
    return path.dirname(this.stateFile(group));
  }

  async thaw(instance: string): Promise<void> {
    await this.thawStorage(instance);
    await this.#setFrozen(instance, false);
    await this.dissolveClients(instance);
  }

  isFrozen(instance: string): boolean {
    try {
      if (this.#tree.version === 1) return readFileSync(this.stateFile(instance), 'latin1').trim() === 'FROZEN';
      return /^frozen 1$/m.test(readFileSync(this.#tree.file('freezer', instance, 'cgroup.events'), 'latin1'));
    } catch (error) {
      if (isGoneGroup(error)) return false;
      throw error;
    }
  }

  /** Thaws the processes of a sandbox's buckets. The sandbox may stay frozen. */
  async thawStorage(instance: string): Promise<void> {
    for (const group of await this.#storage.readNames(instance)) await this.#setFrozen(group, false);
  }

  /**
   * The files that freeze and thaw a sandbox and its buckets. The buckets come first, because the sandbox may wait for
   * them.
   */
  async listFiles(instance: string): Promise<string[]> {
    return [...(await this.#storage.readNames(instance)), instance].map((group) => this.stateFile(group));
  }

  async #freezeStorage(instance: string, timeoutSeconds: number): Promise<boolean> {
    const groups = await this.#storage.readNames(instance);
    for (const group of groups) await this.#setFrozen(group, true);
    const frozen = (group: string) => this.isFrozen(group) || !existsSync(this.stateFile(group));
    return until(() => groups.every(frozen), { timeoutSeconds, everyMs: 2 });
  }

  async #setFrozen(instance: string, frozen: boolean): Promise<void> {
    const text = this.#tree.version === 2 ? (frozen ? '1' : '0') : frozen ? 'FROZEN' : 'THAWED';
    await writeFile(this.stateFile(instance), text).catch(ignoreGoneGroup);
  }

  stateFile(instance: string): string {
    return this.#tree.file('freezer', instance, this.#tree.version === 2 ? 'cgroup.freeze' : 'freezer.state');
  }

  /** The file that freezes the group of all sandboxes, and the text to write there. */
  get fence(): { file: string; text: string } {
    return { file: this.stateFile(''), text: this.#tree.version === 2 ? '1' : 'FROZEN' };
  }

  get isFenced(): boolean {
    return this.isFreezeRequested('');
  }

  /**
   * Whether a freeze of an instance was requested. Not all of its processes need be frozen: one in a system call freezes
   * when the call ends, and with version 2 one that was killed runs until it has ended.
   */
  isFreezeRequested(instance: string): boolean {
    const isSet = (group: string, file: string) => {
      try {
        return readFileSync(this.#tree.file('freezer', group, file), 'latin1').trim() === '1';
      } catch (error) {
        if (isGoneGroup(error)) return false;
        throw error;
      }
    };
    if (this.#tree.version === 1) return isSet(instance, 'freezer.self_freezing');
    return [instance, path.join(instance, clientsGroup)].some((group) => isSet(group, 'cgroup.freeze'));
  }

  /** Freezes every process of an instance, and returns before all of them are frozen. */
  async halt(instance: string): Promise<void> {
    try {
      await writeFile(this.stateFile(instance), this.#tree.version === 2 ? '1' : 'FROZEN');
    } catch (error) {
      if (!isGoneGroup(error)) throw error;
    }
  }

  async liftFence(): Promise<void> {
    await this.#setFrozen('', false);
  }

  /** The kernel functions in which threads of an instance or of its buckets wait, so that they cannot be frozen. */
  async unfreezableWaits(instance: string): Promise<string[]> {
    const waits = new Set<string>();
    for (const group of [instance, ...(await this.#storage.readNames(instance))]) {
      const threads = await readPids(
        this.#tree.file('freezer', group, this.#tree.version === 2 ? 'cgroup.threads' : 'tasks'),
      );
      for (const thread of threads) waits.add(uninterruptibleWait(thread) ?? '');
    }
    return [...waits].filter(Boolean).sort();
  }
}
