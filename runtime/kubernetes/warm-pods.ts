import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { PoolDemand } from '../pool-demand.ts';
import { until } from '../process/until.ts';
import { isFreeWarm } from './names.ts';
import { endOf } from './pod-state.ts';
import type { WarmShape } from './warm-manifests.ts';
import type { WarmPod, WarmPodMaker } from './warm-pod-maker.ts';

/** Pods that are made at once. */
const madeAtOnce = 2;
/** A refill begins when no create has come for this long, because it would take processor time from the next one. */
const calmMs = 500;
/** The longest wait of a refill for a calm moment: a host that always creates needs its pods most. */
const calmPatienceMs = 5000;
/** How long each new pod waits for the creates in progress. */
const busyPatienceSeconds = 2;
/** After pods have given way, or one could not be made, none is made for this long. */
const holdMs = 60_000;
/** After a pod could not be made: at first, and at most. */
const retryMs = { first: 10_000, most: 600_000 };
/** How long an end waits for the removals in progress. */
const closeMs = 5000;
/** The demand is computed again at this interval, so that unused pods go. */
const resizeMs = 30_000;

/** The pods of one shape. */
interface ShapePool {
  shape: WarmShape;
  demand: PoolDemand;
  ready: WarmPod[];
  making: number;
}

interface WarmPodsParts {
  maker: Pick<WarmPodMaker, 'make' | 'seen' | 'forget' | 'discard' | 'drop' | 'removeAbandoned'>;
  /** The image as nodes pull it: several references may mean the same. */
  imageOf: (reference: string) => string;
  /** What the pods of `least` are. Null: there is no base image. */
  base: WarmShape | null;
  /** Pods of the base shape at least, and of each shape at most after bursts of creates. */
  size: { least: number; most: number };
  /** What all of them together may request of the nodes' memory, now. */
  budgetMb: () => number;
  /** What one requests of it. */
  requestedMb: (shape: WarmShape) => number;
  /** Whether the cluster has room for one more beside all that there are. */
  hasRoom: (shape: WarmShape, present: readonly WarmShape[]) => boolean;
  /** Whether creates are in progress; a refill waits for them for a while. */
  isBusy: () => boolean;
  logger: DriverLogger;
}

/**
 * Pods that are ready before their sandbox: of each image and size that sandboxes were made with lately as many as the
 * largest burst of creates, and of the base image's default size always some. They take only what the cluster has left.
 */
export class WarmPods {
  readonly #parts: WarmPodsParts;
  /** By shape; the one that was asked for last is the last. */
  readonly #pools = new Map<string, ShapePool>();
  readonly #closing = new AbortController();
  readonly #resizing: NodeJS.Timeout;
  /** Ends what is being made, when pods have to give way. */
  #makings = new AbortController();
  #lastClaimMs = Number.NEGATIVE_INFINITY;
  #heldUntilMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #filling: Promise<unknown> | null = null;
  /** Removals in progress. */
  readonly #removals = new Set<Promise<void>>();

  constructor(parts: WarmPodsParts) {
    this.#parts = parts;
    this.#resizing = setInterval(() => this.#resize(), resizeMs).unref();
  }

  /** Removes what earlier processes have left, and begins to fill. Call it when the watch is open. */
  async open(): Promise<void> {
    const { maker, base, size } = this.#parts;
    await maker.removeAbandoned();
    if (base) this.#pools.set(this.#keyOf(base), newPool(base, size));
    this.#fill();
  }

  /** How many are ready, of one image or of all. */
  ready(image?: string): number {
    const pools = [...this.#pools.values()].filter(({ shape }) => image === undefined || shape.image === image);
    return pools.reduce((sum, { ready }) => sum + ready.length, 0);
  }

  /** Images that pods are kept of, the base image not among them. */
  get images(): string[] {
    const images = new Set([...this.#pools.values()].map(({ shape }) => shape.image));
    if (this.#parts.base) images.delete(this.#parts.base.image);
    return [...images];
  }

  /** Takes a pod that fits; null when there is none. It is the caller's from then on, to take or to discard. */
  claim(spec: SandboxSpec): WarmPod | null {
    const { maker, size } = this.#parts;
    const shape = shapeOf(spec);
    const key = this.#keyOf(shape);
    const pool = this.#pools.get(key) ?? newPool(shape, { least: 0, most: size.most });
    this.#pools.delete(key);
    this.#pools.set(key, pool);
    this.#lastClaimMs = performance.now();
    pool.demand.note(this.#lastClaimMs);
    const at = pool.ready.findIndex((each) => maker.seen(each));
    const [taken] = at < 0 ? [] : pool.ready.splice(at, 1);
    this.#fill();
    return taken ?? null;
  }

  /** Removes a pod that could not be taken, and returns when it is gone. */
  discard(pod: WarmPod): Promise<void> {
    return this.#parts.maker.discard(pod.name);
  }

  /** The pod is its sandbox's, or of one that failed. */
  forget(pod: WarmPod): void {
    this.#parts.maker.forget(pod.name);
  }

  /**
   * Ends up to so many pods for a sandbox that has no room, those asked for longest ago first, and what is being made; none
   * is made for a minute.
   * @returns how many are gone
   */
  async giveWay(count: number): Promise<number> {
    this.#heldUntilMs = performance.now() + holdMs;
    const begun = [...this.#pools.values()].reduce((sum, { making }) => sum + making, 0);
    this.#makings.abort();
    this.#makings = new AbortController();
    const victims: WarmPod[] = [];
    for (const { ready } of this.#pools.values()) victims.push(...ready.splice(0, count - victims.length));
    await Promise.all(victims.map(({ name }) => this.#remove(name)));
    return victims.length + begun;
  }

  /** Call it with each pod after each change: one that ends by itself, or that another process takes, is replaced. */
  notice(pod: V1Pod, isGone: boolean): void {
    const isTaken = !isFreeWarm(pod);
    if (!isTaken && !isGone && !endOf(pod)) return;
    for (const { ready } of this.#pools.values()) {
      const at = ready.findIndex(({ uid }) => uid === pod.metadata!.uid);
      if (at < 0) continue;
      const [lost] = ready.splice(at, 1);
      // Of another process, which has taken it.
      if (isTaken) this.forget(lost!);
      void (isTaken ? Promise.resolve() : this.#remove(lost!.name)).then(() => this.#fill());
    }
  }

  /** Ends those of an image that no template has any more. */
  async drop(image: string): Promise<void> {
    const gone = [...this.#pools].filter(([, { shape }]) => shape.image === image);
    for (const [key] of gone) this.#pools.delete(key);
    await Promise.all(gone.flatMap(([, { ready }]) => ready.splice(0).map(({ name }) => this.#remove(name))));
  }

  removeAbandoned(): Promise<void> {
    return this.#parts.maker.removeAbandoned();
  }

  /** Begins to end all of them. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#makings.abort();
    clearInterval(this.#resizing);
    await this.#filling;
    // What is not gone by then is removed by the next process.
    await Promise.race([Promise.all(this.#removals), sleep(closeMs, undefined, { ref: false })]);
    const ready = [...this.#pools.values()].flatMap((pool) => pool.ready.splice(0));
    await Promise.all(ready.map(({ name }) => this.#parts.maker.drop(name)));
  }

  #keyOf({ image, cpuCount, memoryMb, storageGb }: WarmShape): string {
    return JSON.stringify([this.#parts.imageOf(image), cpuCount, memoryMb, storageGb]);
  }

  #resize(): void {
    this.#fill();
    this.#parts.maker.removeAbandoned().catch((error) => {
      this.#parts.logger.warn({ err: error }, 'warm pods of an earlier process could not be removed');
    });
  }

  #fill(): void {
    if (this.#filling || this.#closing.signal.aborted) return;
    this.#filling = Promise.all(Array.from({ length: madeAtOnce }, () => this.#fillUp()))
      .catch((error) => {
        if (!this.#closing.signal.aborted) this.#parts.logger.warn({ err: error }, 'warm pods could not be made');
      })
      .finally(() => {
        this.#filling = null;
      });
  }

  async #fillUp(): Promise<void> {
    const { maker, logger } = this.#parts;
    const calmUntilMs = performance.now() + calmPatienceMs;
    while (!this.#closing.signal.aborted) {
      await this.#shrink();
      if (!this.#nextToFill()) return;
      await this.#waitForCalm(calmUntilMs);
      const pool = this.#nextToFill();
      if (!pool) return;
      const { signal } = this.#makings;
      pool.making += 1;
      try {
        const made = await maker.make(pool.shape, AbortSignal.any([signal, this.#closing.signal]));
        this.#failures = 0;
        // Its template went meanwhile.
        if (this.#pools.get(this.#keyOf(pool.shape)) === pool) pool.ready.push(made);
        else await this.#remove(made.name);
      } catch (error) {
        if (signal.aborted || this.#closing.signal.aborted) return;
        this.#heldUntilMs = performance.now() + Math.min(retryMs.most, retryMs.first * 2 ** this.#failures);
        this.#failures += 1;
        logger.warn({ err: error, image: pool.shape.image }, 'a warm pod could not be made; trying again later');
        return;
      } finally {
        pool.making -= 1;
      }
    }
  }

  /** A shape that lacks pods and may have one more. Others that were asked for earlier may have to give way first. */
  #nextToFill(): ShapePool | null {
    const nowMs = performance.now();
    if (nowMs < this.#heldUntilMs) return null;
    const lacks = ({ demand, ready, making }: ShapePool) => ready.length + making < demand.size(nowMs);
    const pool = [...this.#pools.values()].reverse().find(lacks);
    if (!pool || !this.#parts.hasRoom(pool.shape, this.#present())) return null;
    return this.#isWithinBudget(pool) ? pool : null;
  }

  #isWithinBudget(pool: ShapePool): boolean {
    const { budgetMb, requestedMb, size } = this.#parts;
    const fits = () => {
      const present = this.#present();
      const requested = [...present, pool.shape].reduce((sum, shape) => sum + requestedMb(shape), 0);
      return present.length < size.least || requested <= budgetMb();
    };
    for (const other of this.#pools.values()) {
      // Those behind it were asked for later.
      if (fits() || other === pool) break;
      while (!fits() && other.ready.length > 0) void this.#remove(other.ready.shift()!.name);
    }
    return fits();
  }

  /** The shapes of all pods that there are, or will be. */
  #present(): WarmShape[] {
    return [...this.#pools.values()].flatMap(({ shape, ready, making }) =>
      Array.from({ length: ready.length + making }, () => shape),
    );
  }

  /** Ends what no burst of the last minutes needs. */
  async #shrink(): Promise<void> {
    for (const [key, pool] of this.#pools) {
      const size = pool.demand.size(performance.now());
      const surplus = pool.ready.splice(size);
      await Promise.all(surplus.map(({ name }) => this.#remove(name)));
      if (size === 0 && pool.ready.length + pool.making === 0) this.#pools.delete(key);
    }
  }

  async #waitForCalm(lastMs: number): Promise<void> {
    const { signal } = this.#closing;
    const isCalm = () => {
      const nowMs = performance.now();
      return nowMs - this.#lastClaimMs >= calmMs || nowMs >= lastMs;
    };
    await until(isCalm, { timeoutSeconds: calmPatienceMs / 1000, everyMs: 50, signal });
    await until(() => !this.#parts.isBusy(), { timeoutSeconds: busyPatienceSeconds, everyMs: 50, signal });
  }

  /** What could not be removed is removed later, as abandoned. */
  #remove(name: string): Promise<void> {
    const removal = this.#parts.maker.discard(name).catch((error) => {
      this.#parts.logger.warn({ err: error, name }, 'a warm pod could not be removed');
    });
    this.#removals.add(removal);
    return removal.finally(() => this.#removals.delete(removal));
  }
}

const shapeOf = ({ image, cpuCount, memoryMb, storageGb }: SandboxSpec): WarmShape => ({
  image,
  cpuCount,
  memoryMb,
  storageGb,
});

const newPool = (shape: WarmShape, size: { least: number; most: number }): ShapePool => ({
  shape,
  demand: new PoolDemand(size),
  ready: [],
  making: 0,
});
