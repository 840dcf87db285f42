import os from 'node:os';
import path from 'node:path';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { type PoolMember, WarmPool } from './warm-pool.ts';

/** What a frozen member holds: Node with the agent, and the kernel's own of a container. */
const memberMemoryMb = 72;
/** Of the machine's memory, what frozen members may hold where no setting says so. */
const memoryFraction = 1 / 16;

type PoolParts = Omit<ConstructorParameters<typeof WarmPool>[0], 'size' | 'image' | 'mayGrow' | 'sizesFile'>;

/**
 * A pool for each template that sandboxes were made from lately. That of the base image is always there; the others come
 * with the first create, are sized by the bursts of the last minutes, and go when those are over. Together they have a
 * budget of memory: where it is used up, members of the template that was asked for least lately give way.
 */
export class WarmPools {
  readonly #parts: PoolParts;
  readonly #most: number;
  readonly #maxMembers: number;
  readonly #base: { reference: string; pool: WarmPool };
  /** By the reference that templates have; the one that was asked for last is the last. */
  readonly #others = new Map<string, WarmPool>();
  readonly #imageOf: (reference: string) => Promise<UnpackedImage>;

  constructor(
    parts: PoolParts & {
      base: string;
      /** Members of the base image's pool at least, and of each pool at most. */
      size: { least: number; most: number };
      /** For the members of all pools. Undefined: a sixteenth of the machine's. */
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

  /** How many are ready, of one template or of all. */
  ready(reference?: string): number {
    if (reference !== undefined) return this.#poolOf(reference)?.ready ?? 0;
    return [this.#base.pool, ...this.#others.values()].reduce((sum, pool) => sum + pool.ready, 0);
  }

  /** Takes a member that fits; null when there is none. It is the caller's from then on. */
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

  /** References of templates that have a pool, the base image's not among them. */
  get references(): string[] {
    return [...this.#others.keys()];
  }

  /** Ends the members of a template that is gone. */
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

  /** Whether one more member is within the budget, once others have given way. */
  async #makeRoomFor(reference: string): Promise<boolean> {
    if (this.ready() < this.#maxMembers) return true;
    for (const [other, pool] of this.#others) {
      // Those behind it were asked for later.
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
