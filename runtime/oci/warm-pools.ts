import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { WarmPool } from '../warm-pool.ts';
import { type PoolMember, PoolMembers, type PoolMembersParts } from './pool-members.ts';

/** The memory of a frozen member: Node with the agent, and the kernel's memory for a container. */
const memberMemoryMb = 72;
/** The part of the machine's memory that frozen members may use if there is no setting. */
const memoryFraction = 1 / 16;
/** Members are made one at a time, because their starts take processor time from creates. */
const madeAtOnce = 1;
const firstStorageGb = 10;
const rememberedSizes = 16;

/** What the creates from one template asked for. */
interface Asked {
  /** The digest of its image. Null: no create has come. */
  digest: string | null;
  /** The sizes of the last disks, oldest first. */
  storageGb: number[];
}

/**
 * Frozen sandboxes of the recently used templates, by reference. A mounted disk cannot grow, so members have the disk
 * size that was requested most often recently.
 */
export class WarmPools {
  readonly #members: PoolMembers;
  readonly #pool: WarmPool<{ image: string }, PoolMember>;
  readonly #base: string;
  /** The file that stores the requested sizes of the base image. */
  readonly #sizesFile: string;
  readonly #asked = new Map<string, Asked>();

  constructor(
    parts: PoolMembersParts & {
      base: string;
      /** The minimum number of members of the base image, and the maximum of each template. */
      size: { least: number; most: number };
      /** The memory for all members. Undefined: a sixteenth of the machine's memory. */
      memoryMb?: number | undefined;
      imageOf: (reference: string, signal: AbortSignal) => Promise<UnpackedImage>;
      isBusy: () => boolean;
      /** Whether the host has capacity for more members. */
      hasCapacity: () => boolean;
      logger: DriverLogger;
    },
  ) {
    const { base, size, memoryMb, imageOf, isBusy, hasCapacity, logger } = parts;
    const members = new PoolMembers(parts);
    this.#members = members;
    this.#base = base;
    this.#sizesFile = path.join(parts.copy.folder, 'pool.json');
    this.#pool = new WarmPool<{ image: string }, PoolMember>({
      make: async ({ image }, signal) =>
        members.make(await imageOf(image, signal), mostFrequent(this.#askedOf(image).storageGb), signal),
      remove: (member) => members.remove(member),
      isStale: (member, { image }) => {
        const { digest, storageGb } = this.#askedOf(image);
        const isOfAsked =
          member.storageGb === mostFrequent(storageGb) && member.image.digest === (digest ?? member.image.digest);
        return !isOfAsked || !members.isIntact(member);
      },
      madeAtOnce,
      keyOf: ({ image }) => image,
      base: { image: base },
      size,
      budgetMb: () => memoryMb ?? (os.totalmem() / 1024 / 1024) * memoryFraction,
      memoryMbOf: () => memberMemoryMb,
      hasCapacity,
      isBusy,
      logger,
    });
  }

  open(): void {
    const storageGb = readDocumentOrSetAside(this.#sizesFile, z.array(z.number().positive()));
    if (storageGb) this.#asked.set(this.#base, { digest: null, storageGb });
    this.#pool.open();
  }

  /** The number of members that are ready. */
  get ready(): number {
    return this.#pool.ready();
  }

  /** Takes a fitting member. Null when there is none. The caller then owns it. */
  claim(reference: string, image: UnpackedImage, storageGb: number): PoolMember | null {
    const { digest } = image;
    const sizes = [...this.#askedOf(reference).storageGb, storageGb].slice(-rememberedSizes);
    this.#asked.set(reference, { digest, storageGb: sizes });
    const fits = (member: PoolMember) =>
      member.storageGb === storageGb && member.image.digest === digest && this.#members.isIntact(member);
    const member = this.#pool.claim({ image: reference }, fits);
    const kept = [this.#base, ...this.#pool.images];
    for (const each of this.#asked.keys()) if (!kept.includes(each)) this.#asked.delete(each);
    return member;
  }

  /** References of templates with members, except the base image's. */
  get references(): string[] {
    return this.#pool.images;
  }

  /** Ends the members of a deleted template. */
  drop(reference: string): Promise<void> {
    return this.#pool.drop(reference);
  }

  async close(): Promise<void> {
    await this.#pool.close();
    await writeFileDurably(this.#sizesFile, JSON.stringify(this.#askedOf(this.#base).storageGb)).catch((error) => {
      // The sizes are only a hint for the next start, so a full disk is ignored.
      if (!isOutOfSpace(error)) throw error;
    });
  }

  #askedOf(reference: string): Asked {
    return this.#asked.get(reference) ?? { digest: null, storageGb: [] };
  }
}

/** Of two sizes with equally many requests, the later one is taken. */
function mostFrequent(sizes: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const size of sizes) counts.set(size, (counts.get(size) ?? 0) + 1);
  const byCount = [...counts].sort(
    ([a, timesA], [b, timesB]) => timesB - timesA || sizes.lastIndexOf(b) - sizes.lastIndexOf(a),
  );
  return byCount[0]?.[0] ?? firstStorageGb;
}
