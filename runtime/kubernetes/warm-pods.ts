import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { PoolDemand } from '../pool-demand.ts';
import { until } from '../process/until.ts';
import { isFreeWarm } from './names.ts';
import { endOf, isUnready } from './pod-state.ts';
import type { WarmShape } from './warm-manifests.ts';
import type { WarmPod, WarmPodMaker } from './warm-pod-maker.ts';

/** The limit of pods that are made at the same time. */
const madeAtOnce = 2;
/** A refill begins when no create has come for this long, because it would take processor time from the next one. */
const calmMs = 500;
/** The longest wait of a refill for a calm moment, because a host with constant creates needs warm pods most. */
const calmPatienceMs = 5000;
/** How long each new pod waits for the creates in progress. */
const busyPatienceSeconds = 2;
/** After warm pods were ended for a sandbox, no new ones are made for this long. */
const holdMs = 60_000;
/** The first and the longest pause after a pod could not be made. */
const retryMs = { first: 10_000, most: 600_000 };
/** How long `close` waits for removals in progress. */
const closeMs = 5000;
/** The demand is computed again at this interval, so that unused pods are removed. */
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
  /** Returns the reference by which nodes pull an image. Several references may mean the same image. */
  imageOf: (reference: string) => string;
  /** The shape of the base image, of which at least `least` pods are kept. Null: there is no base image. */
  base: WarmShape | null;
  /**
   * The minimum of pods of the base shape, and the maximum of pods of each shape, which bursts of creates can reach.
   */
  size: { least: number; most: number };
  /** How much of the nodes' memory all warm pods together may request now. */
  budgetMb: () => number;
  /** How much memory one pod of the shape requests. */
  requestedMb: (shape: WarmShape) => number;
  /** Whether the cluster has room for one more pod in addition to the present ones. */
  hasRoom: (shape: WarmShape, present: readonly WarmShape[]) => boolean;
  /** Whether creates are in progress; a refill waits for them for a while. */
  isBusy: () => boolean;
  logger: DriverLogger;
}

/**
 * Warm pods, which are ready before their sandbox is created. For each image and size that was created lately, there
 * are as many as the largest burst of creates. For the default size of the base image there is always a minimum. Warm
 * pods use only room that sandboxes do not need.
 */
export class WarmPods {
  readonly #parts: WarmPodsParts;
  /** The pools by shape. The order is that of the last create of each shape, the most recent one last. */
  readonly #pools = new Map<string, ShapePool>();
  readonly #closing = new AbortController();
  readonly #resizing: NodeJS.Timeout;
  /** Cancels the pods that are being made, when warm pods have to end for a sandbox. */
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

  /** Removes warm pods of earlier processes, and starts to make new ones. The watch must be open. */
  async open(): Promise<void> {
    const { maker, base, size } = this.#parts;
    await maker.removeAbandoned();
    if (base) this.#pools.set(this.#keyOf(base), newPool(base, size));
    this.#fill();
  }

  /** The number of ready pods of one image, or of all images. */
  ready(image?: string): number {
    const pools = [...this.#pools.values()].filter(({ shape }) => image === undefined || shape.image === image);
    return pools.reduce((sum, { ready }) => sum + ready.length, 0);
  }

  /** The images of which pods are kept, without the base image. */
  get images(): string[] {
    const images = new Set([...this.#pools.values()].map(({ shape }) => shape.image));
    if (this.#parts.base) images.delete(this.#parts.base.image);
    return [...images];
  }

  /**
   * Returns a pod that fits, or null. The pool gives the pod up: the caller must take it for the sandbox or discard it.
   */
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

  /** Starts the removal of a claimed pod that no sandbox has been in. */
  giveUp(pod: WarmPod): void {
    void this.#remove(pod.name);
  }

  /** Removes a claimed pod and returns when it is gone. */
  discard(pod: WarmPod): Promise<void> {
    return this.#parts.maker.discard(pod.name);
  }

  /** Call this when a claimed pod belongs to its sandbox, or has ended with it. */
  forget(pod: WarmPod): void {
    this.#parts.maker.forget(pod.name);
  }

  /**
   * Ends up to `count` warm pods for a sandbox that has no room, and cancels the pods that are being made. Pods of the
   * shape that was created longest ago end first. No new warm pod is made for a minute.
   * @returns how many pods were ended or cancelled
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

  /**
   * Call this with each pod after each change. It replaces a pod that has ended, whose node does not answer, or that
   * another process has taken.
   */
  notice(pod: V1Pod, isGone: boolean): void {
    const isTaken = !isFreeWarm(pod);
    if (!isTaken && !isGone && !endOf(pod) && !isUnready(pod)) return;
    for (const { ready } of this.#pools.values()) {
      const at = ready.findIndex(({ uid }) => uid === pod.metadata!.uid);
      if (at < 0) continue;
      const [lost] = ready.splice(at, 1);
      // Another process has taken the pod for one of its sandboxes.
      if (isTaken) this.forget(lost!);
      void (isTaken ? Promise.resolve() : this.#remove(lost!.name)).then(() => this.#fill());
    }
  }

  /** Ends the pods of an image that no template uses any more. */
  async drop(image: string): Promise<void> {
    const gone = [...this.#pools].filter(([, { shape }]) => shape.image === image);
    for (const [key] of gone) this.#pools.delete(key);
    await Promise.all(gone.flatMap(([, { ready }]) => ready.splice(0).map(({ name }) => this.#remove(name))));
  }

  removeAbandoned(): Promise<void> {
    return this.#parts.maker.removeAbandoned();
  }

  /** Starts the removal of all warm pods. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#makings.abort();
    clearInterval(this.#resizing);
    await this.#filling;
    // The next process removes the pods that are not gone by then.
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
        // The pool may be gone meanwhile, because its template was deleted.
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

  /**
   * The next pool that lacks pods and may have one more. Pods of shapes that were created earlier may be ended for it.
   */
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
      // The pools after this one were used more recently, so they keep their pods.
      if (fits() || other === pool) break;
      while (!fits() && other.ready.length > 0) void this.#remove(other.ready.shift()!.name);
    }
    return fits();
  }

  /** The shapes of all pods that are ready or being made. */
  #present(): WarmShape[] {
    return [...this.#pools.values()].flatMap(({ shape, ready, making }) =>
      Array.from({ length: ready.length + making }, () => shape),
    );
  }

  /** Ends the pods that exceed the largest recent burst of creates. */
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

  /** Removes a pod. After a failure, `removeAbandoned` removes it later. */
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
