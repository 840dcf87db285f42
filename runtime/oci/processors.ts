import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type CgroupTree, ignoreGoneGroup } from './cgroup-tree.ts';

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

/** A sandbox that may use some of a host's processors. */
export interface Pinned {
  instance: string;
  processors: readonly number[];
  /** Its recent use, in processors. */
  used: number;
}

/** Above this load a processor counts as full. */
const saturated = 0.9;
/**
 * On a full processor, a sandbox with at least this part of the largest use counts as throttled, so it wants a whole
 * processor.
 */
const wanting = 0.7;
/** Loads with a smaller difference count as even. */
const even = 0.5;
const maxMoves = 16;

/** The processors for one more sandbox: those with the fewest sandboxes. */
export function chooseProcessors(
  available: readonly number[],
  present: Iterable<readonly number[]>,
  count: number,
): number[] {
  const holders = new Map(available.map((processor) => [processor, 0]));
  for (const each of present) {
    for (const processor of each) if (holders.has(processor)) holders.set(processor, holders.get(processor)! + 1);
  }
  const byHolders = [...available].sort((a, b) => holders.get(a)! - holders.get(b)! || a - b);
  return byHolders.slice(0, Math.max(1, count)).sort((a, b) => a - b);
}

/**
 * Balances the load of the processors. The kernel moves a process only between the processors of its sandbox.
 * @returns the sandboxes to move, with their new processors
 */
export function rebalance(available: readonly number[], sandboxes: readonly Pinned[]): Map<string, number[]> {
  const places = new Map(sandboxes.map(({ instance, processors }) => [instance, [...processors]]));
  const wants = computeWants(available, sandboxes);
  const loads = new Map(available.map((processor) => [processor, 0]));
  for (const [instance, processors] of places) {
    for (const processor of processors) loads.set(processor, (loads.get(processor) ?? 0) + wants.get(instance)!);
  }
  const moved = new Map<string, number[]>();
  for (let moves = 0; moves < maxMoves; moves += 1) {
    const [most, least] = extremes(available, loads);
    const gap = loads.get(most)! - loads.get(least)!;
    if (gap <= even) break;
    // The sandbox with which both loads become most even.
    const best = [...places]
      .filter(([instance, processors]) => {
        const want = wants.get(instance)!;
        return processors.includes(most) && !processors.includes(least) && want > 0.05 && want < gap - 0.05;
      })
      .sort(([a], [b]) => Math.abs(gap / 2 - wants.get(a)!) - Math.abs(gap / 2 - wants.get(b)!))[0];
    if (!best) break;
    const [instance, processors] = best;
    const next = processors.map((each) => (each === most ? least : each)).sort((a, b) => a - b);
    const want = wants.get(instance)!;
    loads.set(most, loads.get(most)! - want);
    loads.set(least, loads.get(least)! + want);
    places.set(instance, next);
    moved.set(instance, next);
  }
  return moved;
}

/**
 * The load that each sandbox wants on each of its processors. On a full processor, the sandboxes with the largest use
 * would take more.
 */
function computeWants(available: readonly number[], sandboxes: readonly Pinned[]): Map<string, number> {
  const share = ({ used, processors }: Pinned) => used / processors.length;
  const onProcessor = new Map(available.map((processor) => [processor, { sum: 0, most: 0 }]));
  for (const sandbox of sandboxes) {
    for (const processor of sandbox.processors) {
      const found = onProcessor.get(processor);
      if (!found) continue;
      found.sum += share(sandbox);
      found.most = Math.max(found.most, share(sandbox));
    }
  }
  return new Map(
    sandboxes.map((sandbox) => {
      const isHeldBack = sandbox.processors.some((processor) => {
        const found = onProcessor.get(processor);
        return found !== undefined && found.sum >= saturated && share(sandbox) >= wanting * found.most;
      });
      return [sandbox.instance, isHeldBack ? 1 : Math.min(1, share(sandbox))];
    }),
  );
}

function extremes(available: readonly number[], loads: Map<number, number>): [most: number, least: number] {
  const sorted = [...available].sort((a, b) => loads.get(b)! - loads.get(a)!);
  return [sorted[0]!, sorted.at(-1)!];
}

/** Converts `0-2,5` to `[0, 1, 2, 5]`. */
export function readProcessorList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number);
      return Array.from({ length: last! - first! + 1 }, (_, at) => first! + at);
    });
}
