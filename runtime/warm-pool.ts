import type { DriverLogger } from './driver-logger.ts';
import { until } from './process/until.ts';

/** A refill begins when no create has come for this long, because it would take processor time from the next one. */
const quietMs = 500;
/** The longest wait of a refill for a quiet moment, because a host with constant creates needs its members most. */
const maxQuietWaitMs = 5000;
/** How long each new member waits for the creates in progress. */
const maxBusyWaitSeconds = 1;
/** After members were ended for a sandbox, no new ones are made for this long. */
const holdMs = 60_000;
/** The first and the longest pause of a pool after a member could not be made. */
const retryMs = { first: 10_000, most: 600_000 };
/** The demand is computed again at this interval, so that unused members end. */
const resizeMs = 30_000;

/** The members of one shape. */
interface ShapePool<Shape, Member> {
  shape: Shape;
  least: number;
  demand: PoolDemand;
  /** The oldest first. */
  ready: Member[];
  making: number;
  failures: number;
  heldUntilMs: number;
}

interface WarmPoolParts<Shape, Member> {
  /** Makes a member. @throws after what it made is removed */
  make: (shape: Shape, signal: AbortSignal) => Promise<Member>;
  /** Ends a member. */
  remove: (member: Member) => Promise<void>;
  /** Whether a member should be replaced, because it has ended, or new ones of its shape are made differently. */
  isStale: (member: Member, shape: Shape) => boolean;
  /** The limit of members that are made at the same time. */
  maxConcurrentRefills: number;
  /** Shapes with the same key share their members. */
  toKey: (shape: Shape) => string;
  /** The shape of which at least `least` members are kept. Null: there is none. */
  base: Shape | null;
  /** The minimum for the base shape, and the maximum for each shape, which bursts of creates can reach. */
  size: { least: number; most: number };
  /** How much memory all members together may use now. */
  budgetMb: () => number;
  /** How much memory one member of the shape uses. */
  toMemoryMb: (shape: Shape) => number;
  /** Whether there is capacity for one more member in addition to the present ones. */
  hasCapacity: (shape: Shape, present: readonly Shape[]) => boolean;
  /** Whether creates are in progress. A refill waits for them for a while. */
  isBusy: () => boolean;
  logger: DriverLogger;
}

/**
 * Decides how many sandboxes are made before they are created, and of which image. For each shape that was created
 * lately, there are as many as the largest burst of creates. For the base shape there is always a minimum. All members
 * share a budget of memory. When it is used up, members of the shape that was created longest ago are ended, but not
 * the minimum.
 */
export class WarmPool<Shape extends { image: string }, Member extends { name: string }> {
  readonly #parts: WarmPoolParts<Shape, Member>;
  /** The pools by key. The order is that of the last create of each shape, the most recent one last. */
  readonly #pools = new Map<string, ShapePool<Shape, Member>>();
  readonly #closing = new AbortController();
  readonly #resizing: NodeJS.Timeout;
  readonly #removals = new Set<Promise<void>>();
  /** Cancels the members that are being made, when members have to end for a sandbox. */
  #makings = new AbortController();
  #lastClaimMs = Number.NEGATIVE_INFINITY;
  #heldUntilMs = Number.NEGATIVE_INFINITY;
  #filling: Promise<unknown> | null = null;

  constructor(parts: WarmPoolParts<Shape, Member>) {
    this.#parts = parts;
    this.#resizing = setInterval(() => this.#fill(), resizeMs).unref();
  }

  /** Begins to make members in the background. */
  open(): void {
    const { base, size, toKey } = this.#parts;
    if (base) this.#pools.set(toKey(base), newPool(base, size));
    this.#fill();
  }

  /** The number of ready members of one image, or of all images. */
  ready(image?: string): number {
    const pools = [...this.#pools.values()].filter(({ shape }) => image === undefined || shape.image === image);
    return pools.reduce((sum, { ready }) => sum + ready.length, 0);
  }

  /** The images of which members are kept, without the base image. */
  get images(): string[] {
    const images = new Set([...this.#pools.values()].map(({ shape }) => shape.image));
    if (this.#parts.base) images.delete(this.#parts.base.image);
    return [...images];
  }

  /** Takes a member that fits. The caller then owns it. Null: there is none. */
  claim(shape: Shape, fits: (member: Member) => boolean): Member | null {
    const { toKey, size } = this.#parts;
    const key = toKey(shape);
    const pool = this.#pools.get(key) ?? newPool(shape, { least: 0, most: size.most });
    this.#pools.delete(key);
    this.#pools.set(key, pool);
    this.#lastClaimMs = performance.now();
    pool.demand.note(this.#lastClaimMs);
    const at = pool.ready.findIndex(fits);
    const [taken] = at < 0 ? [] : pool.ready.splice(at, 1);
    this.#fill();
    return taken ?? null;
  }

  /** Takes a lost member out of its pool, ends it, and makes another one. */
  async replace(isLost: (member: Member) => boolean, end: (member: Member) => Promise<void>): Promise<void> {
    for (const { ready } of this.#pools.values()) {
      const at = ready.findIndex(isLost);
      if (at < 0) continue;
      await end(ready.splice(at, 1)[0]!);
      this.#fill();
    }
  }

  /**
   * Ends up to `count` members for a sandbox that finds no capacity, and cancels the members that are being made.
   * Members of the shape that was created longest ago end first. No new member is made for a minute.
   * @returns how many members were ended or cancelled
   */
  async evict(count: number): Promise<number> {
    this.#heldUntilMs = performance.now() + holdMs;
    const begun = [...this.#pools.values()].reduce((sum, { making }) => sum + making, 0);
    this.#makings.abort();
    this.#makings = new AbortController();
    const victims: Member[] = [];
    for (const { ready } of this.#pools.values()) victims.push(...ready.splice(0, count - victims.length));
    await Promise.all(victims.map((member) => this.remove(member)));
    return victims.length + begun;
  }

  /** Ends the members of an image that no template uses any more. */
  async drop(image: string): Promise<void> {
    const gone = [...this.#pools].filter(([, { shape }]) => shape.image === image);
    for (const [key] of gone) this.#pools.delete(key);
    await Promise.all(gone.flatMap(([, { ready }]) => ready.splice(0).map((member) => this.remove(member))));
  }

  /** Ends a member that no pool has, such as a claimed one. `close` waits for this. */
  remove(member: Member): Promise<void> {
    const removal = this.#parts
      .remove(member)
      .catch((error) => {
        const fields = { err: error, name: member.name };
        this.#parts.logger.warn(fields, 'a member of a warm pool could not be removed');
      })
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
    return removal;
  }

  /** Ends every member. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#resizing);
    for (const { ready } of this.#pools.values()) for (const member of ready.splice(0)) void this.remove(member);
    await this.#filling;
    await Promise.all(this.#removals);
  }

  #fill(): void {
    const { maxConcurrentRefills, logger } = this.#parts;
    if (this.#filling || this.#closing.signal.aborted) return;
    this.#filling = Promise.all(Array.from({ length: maxConcurrentRefills }, () => this.#fillUp()))
      .catch((error) => {
        if (!this.#closing.signal.aborted) logger.warn({ err: error }, 'the warm pools could not be filled');
      })
      .finally(() => {
        this.#filling = null;
      });
  }

  async #fillUp(): Promise<void> {
    const { signal } = this.#closing;
    const waitUntilMs = performance.now() + maxQuietWaitMs;
    while (!signal.aborted) {
      await this.#shrink();
      const next = this.#nextToFill();
      if (!next) return;
      await this.#waitForQuiet(next, waitUntilMs);
      const pool = this.#nextToFill();
      if (!pool) return;
      if (!(await this.#makeOne(pool))) return;
    }
  }

  /** @returns false after a failure or a cancellation */
  async #makeOne(pool: ShapePool<Shape, Member>): Promise<boolean> {
    const { make, toKey, logger } = this.#parts;
    const signal = AbortSignal.any([this.#makings.signal, this.#closing.signal]);
    pool.making += 1;
    // One of the stale members gives its place to the new one.
    const surplus = pool.ready.length + pool.making - pool.demand.size(performance.now());
    if (surplus > 0) void this.#endOne(pool, Number.POSITIVE_INFINITY);
    try {
      const made = await make(pool.shape, signal);
      pool.failures = 0;
      // The pool may be gone meanwhile, because its template was deleted.
      const isWanted = this.#pools.get(toKey(pool.shape)) === pool && !this.#closing.signal.aborted;
      if (isWanted) pool.ready.push(made);
      else await this.remove(made);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      pool.heldUntilMs = performance.now() + Math.min(retryMs.most, retryMs.first * 2 ** pool.failures);
      pool.failures += 1;
      const { image } = pool.shape;
      logger.warn({ err: error, image }, 'a member of a warm pool could not be made; trying again later');
      return false;
    } finally {
      pool.making -= 1;
    }
  }

  /** The next pool that lacks members and may have one more. Members of other pools may be ended for it. */
  #nextToFill(): ShapePool<Shape, Member> | null {
    const nowMs = performance.now();
    if (nowMs < this.#heldUntilMs) return null;
    const wanting = [...this.#pools.values()].reverse().filter((pool) => {
      const { shape, demand, ready, making, heldUntilMs } = pool;
      const fresh = ready.filter((member) => !this.#parts.isStale(member, shape));
      return nowMs >= heldUntilMs && fresh.length + making < demand.size(nowMs);
    });
    const mayGrow = (pool: ShapePool<Shape, Member>) =>
      this.#parts.hasCapacity(pool.shape, this.#present()) && this.#fitsAfterEviction(pool);
    return [...wanting.filter(isBelowLeast), ...wanting].find(mayGrow) ?? null;
  }

  /** Whether one more member fits into the budget, after others were ended. */
  #fitsAfterEviction(pool: ShapePool<Shape, Member>): boolean {
    const { budgetMb, toMemoryMb, size } = this.#parts;
    const fits = () => {
      const present = this.#present();
      const usedMb = [...present, pool.shape].reduce((sum, shape) => sum + toMemoryMb(shape), 0);
      return present.length < size.least || usedMb <= budgetMb();
    };
    for (const other of this.#pools.values()) {
      const kept = other === pool ? Number.POSITIVE_INFINITY : other.least;
      while (!fits() && this.#endOne(other, kept));
      // The pools after this one were used more recently, so they keep their members.
      if (fits() || (other === pool && !isBelowLeast(pool))) break;
    }
    return fits();
  }

  /**
   * Begins to end a stale member of a pool, or else the oldest one if there are more than `kept`.
   * @returns null when there is no such member
   */
  #endOne({ ready, shape }: ShapePool<Shape, Member>, kept: number): Promise<void> | null {
    const stale = ready.findIndex((member) => this.#parts.isStale(member, shape));
    if (stale < 0 && ready.length <= kept) return null;
    const [member] = ready.splice(Math.max(0, stale), 1);
    return this.remove(member!);
  }

  /** The shapes of all members that are ready or being made. */
  #present(): Shape[] {
    return [...this.#pools.values()].flatMap(({ shape, ready, making }) =>
      Array.from({ length: ready.length + making }, () => shape),
    );
  }

  /** Ends the members that exceed the largest recent burst of creates. */
  async #shrink(): Promise<void> {
    for (const [key, pool] of this.#pools) {
      const size = pool.demand.size(performance.now());
      while (pool.ready.length > size) await this.#endOne(pool, size);
      if (size === 0 && pool.ready.length + pool.making === 0) this.#pools.delete(key);
    }
  }

  /**
   * Waits until no create is in progress and there was none for a moment. An empty pool only waits for those in
   * progress.
   */
  async #waitForQuiet({ ready }: ShapePool<Shape, Member>, lastMs: number): Promise<void> {
    const { signal } = this.#closing;
    const isQuiet = () => {
      const nowMs = performance.now();
      return nowMs - this.#lastClaimMs >= quietMs || nowMs >= lastMs || ready.length === 0;
    };
    await until(isQuiet, { timeoutSeconds: maxQuietWaitMs / 1000, everyMs: 50, signal });
    await until(() => !this.#parts.isBusy(), { timeoutSeconds: maxBusyWaitSeconds, everyMs: 50, signal });
  }
}

const isBelowLeast = <Shape, Member>({ ready, making, least }: ShapePool<Shape, Member>) =>
  ready.length + making < least;

const newPool = <Shape, Member>(shape: Shape, size: { least: number; most: number }): ShapePool<Shape, Member> => ({
  shape,
  least: size.least,
  demand: new PoolDemand(size),
  ready: [],
  making: 0,
  failures: 0,
  heldUntilMs: Number.NEGATIVE_INFINITY,
});

/** Creates within this time use the same pool, which is not refilled in between. */
const burstMs = 5000;
/** A burst affects the size for this long. */
const rememberedMs = 600_000;

/** Computes the number of members of a pool from recent bursts of creates. */
export class PoolDemand {
  readonly #least: number;
  readonly #most: number;
  /** The times of the last claims, oldest first. */
  #claims: number[] = [];

  constructor(size: { least: number; most: number }) {
    this.#least = size.least;
    this.#most = Math.max(size.least, size.most);
  }

  /** Call this for each create that could use a member, even if there was none. */
  note(atMs: number): void {
    // More claims in a burst make no difference, and older bursts are dropped after their time.
    this.#claims = [...this.#recent(atMs), atMs].slice(-64 * this.#most);
  }

  /** The largest burst of the last minutes, within the limits. */
  size(nowMs: number): number {
    const claims = this.#recent(nowMs);
    let largest = 0;
    for (let first = 0, last = 0; last < claims.length; last += 1) {
      while (claims[last]! - claims[first]! > burstMs) first += 1;
      largest = Math.max(largest, last - first + 1);
    }
    return Math.min(this.#most, Math.max(this.#least, largest));
  }

  #recent(nowMs: number): number[] {
    return this.#claims.filter((atMs) => nowMs - atMs <= rememberedMs);
  }
}
