import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { WarmPool } from '../warm-pool.ts';
import { isFreeWarm } from './names.ts';
import type { WarmShape } from './options.ts';
import { findPodEnd, isUnready } from './pod-state.ts';
import type { WarmPod, WarmPodMaker } from './warm-pod-maker.ts';

/** The limit of pods that are made at the same time. */
const maxConcurrentRefills = 2;
/** How long `close` waits for removals in progress. The next process removes the pods that are not gone by then. */
const closeMs = 5000;
/** Warm pods of earlier processes are looked for at this interval. */
const abandonedMs = 30_000;

interface WarmPodsParts {
  maker: Pick<WarmPodMaker, 'make' | 'seen' | 'forget' | 'discard' | 'drop' | 'removeAbandoned'>;
  /** Returns the reference by which nodes pull an image. Several references may mean the same image. */
  resolveImage: (reference: string) => string;
  /** The shape of the base image, of which at least `least` pods are kept. Null: there is no base image. */
  base: WarmShape | null;
  size: { least: number; most: number };
  /** How much of the nodes' memory all warm pods together may request now. */
  budgetMb: () => number;
  /** How much memory one pod of the shape requests. */
  requestedMb: (shape: WarmShape) => number;
  /** Whether the cluster has capacity for one more pod in addition to the present ones. */
  hasCapacity: (shape: WarmShape, present: readonly WarmShape[]) => boolean;
  isBusy: () => boolean;
  logger: DriverLogger;
}

/** Pods that are ready before their sandbox is created. They use only capacity that sandboxes do not need. */
export class WarmPods {
  readonly #maker: WarmPodsParts['maker'];
  readonly #logger: DriverLogger;
  readonly #pool: WarmPool<WarmShape, WarmPod>;
  readonly #searching: NodeJS.Timeout;
  readonly #closed = Promise.withResolvers<void>();
  #isClosing = false;

  constructor({ maker, resolveImage, requestedMb, ...common }: WarmPodsParts) {
    this.#maker = maker;
    this.#logger = common.logger;
    this.#pool = new WarmPool({
      ...common,
      make: (shape, signal) => maker.make(shape, signal),
      remove: (pod) => this.#remove(pod),
      // `notice` replaces the pods that have ended.
      isStale: () => false,
      maxConcurrentRefills,
      toKey: ({ image, cpuCount, memoryMb, storageGb }) =>
        JSON.stringify([resolveImage(image), cpuCount, memoryMb, storageGb]),
      toMemoryMb: requestedMb,
    });
    this.#searching = setInterval(() => this.#search(), abandonedMs).unref();
  }

  /** Removes warm pods of earlier processes, and starts to make new ones. The watch must be open. */
  async open(): Promise<void> {
    await this.#maker.removeAbandoned();
    this.#pool.open();
  }

  /** The number of ready pods of one image, or of all images. */
  ready(image?: string): number {
    return this.#pool.ready(image);
  }

  /** The images of which pods are kept, without the base image. */
  get images(): string[] {
    return this.#pool.images;
  }

  /**
   * Returns a pod that fits, or null. The pool gives the pod up: the caller must take it for the sandbox or discard it.
   */
  claim({ image, cpuCount, memoryMb, storageGb }: SandboxSpec): WarmPod | null {
    return this.#pool.claim({ image, cpuCount, memoryMb, storageGb }, (pod) => this.#maker.seen(pod) !== null);
  }

  /** Starts the removal of a claimed pod that no sandbox has been in. */
  giveUp(pod: WarmPod): void {
    void this.#pool.remove(pod);
  }

  /** Removes a claimed pod and returns when it is gone. */
  discard(pod: WarmPod): Promise<void> {
    return this.#maker.discard(pod.name);
  }

  /** Call this when a claimed pod belongs to its sandbox, or has ended with it. */
  forget(pod: WarmPod): void {
    this.#maker.forget(pod.name);
  }

  /** As `WarmPool.evict`. */
  evict(count: number): Promise<number> {
    return this.#pool.evict(count);
  }

  /**
   * Call this with each pod after each change. It replaces a pod that has ended, whose node does not answer, or that
   * another process has taken.
   */
  notice(pod: V1Pod, isGone: boolean): void {
    const isTaken = !isFreeWarm(pod);
    if (!isTaken && !isGone && !findPodEnd(pod) && !isUnready(pod)) return;
    void this.#pool.replace(
      ({ uid }) => uid === pod.metadata!.uid,
      // Another process has taken the pod for one of its sandboxes.
      async (lost) => (isTaken ? this.forget(lost) : this.#pool.remove(lost)),
    );
  }

  /** As `WarmPool.drop`. */
  drop(image: string): Promise<void> {
    return this.#pool.drop(image);
  }

  removeAbandoned(): Promise<void> {
    return this.#maker.removeAbandoned();
  }

  /** Starts the removal of all warm pods. */
  async close(): Promise<void> {
    clearInterval(this.#searching);
    this.#isClosing = true;
    void sleep(closeMs, undefined, { ref: false }).then(this.#closed.resolve);
    await this.#pool.close();
  }

  /** After a failure, `removeAbandoned` removes the pod later. */
  #remove({ name }: WarmPod): Promise<void> {
    if (this.#isClosing) return this.#maker.drop(name);
    return Promise.race([this.#maker.discard(name), this.#closed.promise]);
  }

  #search(): void {
    this.#maker.removeAbandoned().catch((error) => {
      this.#logger.warn({ err: error }, 'warm pods of an earlier process could not be removed');
    });
  }
}
