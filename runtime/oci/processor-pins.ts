import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type CgroupTree, ignoreGoneGroup } from './cgroup-tree.ts';
import { chooseProcessors, readProcessorList } from './processors.ts';

/** The processors that instances may use. */
export class ProcessorPins {
  readonly #tree: CgroupTree;
  /** The processors for sandboxes. Null: not read yet. */
  #processors: readonly number[] | null = null;
  /** The processors of the instances that may not use all of them. */
  readonly #pins = new Map<string, readonly number[]>();

  constructor(tree: CgroupTree) {
    this.#tree = tree;
  }

  /** Whether this machine can restrict a group to processors. */
  get arePossible(): boolean {
    return this.#tree.has('cpuset');
  }

  /** Gives the group of all sandboxes its processors. */
  async prepare(): Promise<void> {
    if (!this.arePossible) return;
    if (this.#tree.version === 2) {
      this.#processors = readProcessorList(
        await readFile(this.#tree.file('cpuset', '', 'cpuset.cpus.effective'), 'latin1'),
      );
      return;
    }
    // A new group of version 1 has neither processors nor memory, and so would the groups below it.
    const root = this.#tree.controllerRoot('cpuset');
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      const own = this.#tree.file('cpuset', '', name);
      if ((await readFile(own, 'latin1')).trim() === '')
        await writeFile(own, await readFile(path.join(root, name), 'latin1'));
    }
    this.#processors = readProcessorList(await readFile(this.#tree.file('cpuset', '', 'cpuset.cpus'), 'latin1'));
  }

  /** The processors that sandboxes may use. */
  all(): readonly number[] {
    this.#processors ??= Array.from({ length: os.availableParallelism() }, (_, number) => number);
    return this.#processors;
  }

  /** Selects the processors of an instance: as many as it has cores, those with the fewest other instances. */
  choose(instance: string, cpuCount: number): readonly number[] {
    const all = this.all();
    if (cpuCount >= all.length || !this.arePossible) return all;
    this.#pins.delete(instance);
    const chosen = chooseProcessors(all, this.#pins.values(), Math.ceil(cpuCount));
    this.#pins.set(instance, chosen);
    return chosen;
  }

  /** Restricts an instance to these processors. Its processes move at once. */
  async pin(instance: string, processors: readonly number[]): Promise<void> {
    if (!this.arePossible) return;
    if (processors.length < this.all().length) this.#pins.set(instance, processors);
    else this.#pins.delete(instance);
    await writeFile(this.#tree.file('cpuset', instance, 'cpuset.cpus'), processors.join(',')).catch(ignoreGoneGroup);
  }

  /** The processors of an instance according to the kernel. */
  read(instance: string): readonly number[] {
    const name = this.#tree.version === 2 ? 'cpuset.cpus.effective' : 'cpuset.cpus';
    const all = this.all();
    if (!this.arePossible) return all;
    const processors = readProcessorList(readFileSync(this.#tree.file('cpuset', instance, name), 'latin1'));
    if (processors.length < all.length) this.#pins.set(instance, processors);
    return processors;
  }

  forget(instance: string): void {
    this.#pins.delete(instance);
  }
}
