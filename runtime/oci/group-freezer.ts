import { existsSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { uninterruptibleWait } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import { type CgroupTree, ignoreGoneGroup, ignoreGoneProcess, isGoneGroup, readPids } from './cgroup-tree.ts';
import type { DiskRateLimits } from './disk-rates.ts';
import type { StorageGroups } from './storage-groups.ts';

/**
 * The maximum number of rounds that move processes. A process may fork during a move, and each round leaves fewer that
 * can.
 */
const gatherRounds = 100;

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
    const ordered = this.#tree.version === 1 && servers.length > 0;
    const isDone = () => this.isFrozen(instance) || signal?.aborted === true;
    const frozen = async () => (await until(isDone, { timeoutSeconds, everyMs: 2 })) && this.isFrozen(instance);
    if (ordered) await this.#moveIn('freezer', '', servers);
    await writeFile(this.stateFile(instance), this.#tree.version === 2 ? '1' : 'FROZEN');
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
    const inside = path.join(path.dirname(this.stateFile(instance)), 'cgroup.procs');
    for (let round = 0; round < gatherRounds; round += 1) {
      const there = new Set((await readFile(inside, 'latin1')).split('\n').filter(Boolean).map(Number));
      const outside = (await readPids(this.#tree.file('pids', instance, 'cgroup.procs'))).filter(
        (pid) => !there.has(pid),
      );
      if (outside.length === 0) return;
      await this.#moveIn('freezer', instance, outside);
    }
  }

  async #moveIn(controller: string, instance: string, pids: readonly number[]): Promise<void> {
    const file = this.#tree.file(controller, instance, 'cgroup.procs');
    for (const pid of pids) await writeFile(file, String(pid)).catch(ignoreGoneProcess);
  }

  async thaw(instance: string): Promise<void> {
    await this.thawStorage(instance);
    await this.#setFrozen(instance, false);
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

  /** Whether a freeze was requested. A process in a system call freezes when the call ends. */
  get isFenced(): boolean {
    const file = this.#tree.version === 2 ? 'cgroup.freeze' : 'freezer.self_freezing';
    try {
      return readFileSync(this.#tree.file('freezer', '', file), 'latin1').trim() === '1';
    } catch (error) {
      if (isGoneGroup(error)) return false;
      throw error;
    }
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
