import os from 'node:os';
import path from 'node:path';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { type PoolMember, WarmPool } from './warm-pool.ts';

/** The memory of a frozen member: Node with the agent, and the kernel's memory for a container. */
const memberMemoryMb = 72;
/** The part of the machine's memory that frozen members may use if there is no setting. */
const memoryFraction = 1 / 16;

type PoolParts = Omit<ConstructorParameters<typeof WarmPool>[0], 'size' | 'image' | 'mayGrow' | 'sizesFile'>;

/**
 * One pool for each recently used template. The pool of the base image always exists. The others are made on the first
 * create, have the size of the recent bursts, and are removed some minutes after the last create. All pools share a
 * budget of memory. When it is used up, members of the least recently used template are ended.
 */
export class WarmPools {
  readonly #parts: PoolParts;
  readonly #most: number;
  readonly #maxMembers: number;
  readonly #base: { reference: string; pool: WarmPool };
  /** By the reference of the template. The most recently used one is last. */
  readonly #others = new Map<string, WarmPool>();
  readonly #imageOf: (reference: string) => Promise<UnpackedImage>;

  constructor(
    parts: PoolParts & {
      base: string;
      /** The minimum number of members of the base image's pool, and the maximum of each pool. */
      size: { least: number; most: number };
      /** The memory for the members of all pools. Undefined: a sixteenth of the machine's memory. */
      memoryMb?: number | undefined;
      imageOf: (reference: string) => Promise<UnpackedImage>;
    },
  ) {
    const { base, size, memoryMb, imageOf, ...common } = parts;
    this.#parts = common;
    this.#most = size.most;
    this.#imageOf = imageOf;
    const budgetMb = memoryMb ?? (os.totalmem() / 1024 / 1024) * memoryFraction;
    this.#maxMembers = Math.max(size.least, Math.floor(budgetMb / memberMemoryMb));
    this.#base = { reference: base, pool: this.#newPool(base, size, path.join(parts.copy.folder, 'pool.json')) };
  }

  async open(): Promise<void> {
    await this.#base.pool.open();
  }

  /** The number of members that are ready, of one template or of all. */
  ready(reference?: string): number {
    if (reference !== undefined) return this.#poolOf(reference)?.ready ?? 0;
    return [this.#base.pool, ...this.#others.values()].reduce((sum, pool) => sum + pool.ready, 0);
  }

  /** Takes a fitting member. Null when there is none. The caller then owns it. */
  claim(reference: string, image: UnpackedImage, storageGb: number): PoolMember | null {
    let pool = this.#poolOf(reference);
    if (!pool) {
      pool = this.#newPool(reference, { least: 0, most: this.#most }, null);
      void pool.open();
    }
    if (reference !== this.#base.reference) {
      this.#others.delete(reference);
      this.#others.set(reference, pool);
    }
    const member = pool.claim(image, storageGb);
    this.#closeIdle();
    return member;
  }

  /** References of templates with a pool, except the base image's. */
  get references(): string[] {
    return [...this.#others.keys()];
  }

  /** Ends the members of a deleted template. */
  async drop(reference: string): Promise<void> {
    const pool = this.#others.get(reference);
    this.#others.delete(reference);
    await pool?.close();
  }

  async close(): Promise<void> {
    const pools = [this.#base.pool, ...this.#others.values()];
    this.#others.clear();
    await Promise.all(pools.map((pool) => pool.close()));
  }

  #poolOf(reference: string): WarmPool | undefined {
    return reference === this.#base.reference ? this.#base.pool : this.#others.get(reference);
  }

  #newPool(reference: string, size: { least: number; most: number }, sizesFile: string | null): WarmPool {
    return new WarmPool({
      ...this.#parts,
      size,
      image: () => this.#imageOf(reference),
      mayGrow: () => this.#makeRoomFor(reference),
      sizesFile,
    });
  }

  /** Whether one more member fits into the budget, after members of other pools were ended. */
  async #makeRoomFor(reference: string): Promise<boolean> {
    if (this.ready() < this.#maxMembers) return true;
    for (const [other, pool] of this.#others) {
      // The pools after this one were used more recently.
      if (other === reference) return false;
      if (await pool.giveWay()) return true;
    }
    return false;
  }

  #closeIdle(): void {
    for (const [reference, pool] of this.#others) {
      if (!pool.isIdle) continue;
      this.#others.delete(reference);
      void pool.close();
    }
  }
}
