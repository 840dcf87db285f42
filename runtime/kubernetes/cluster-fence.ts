import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverLogger } from '../driver-logger.ts';
import type { DiskFence } from '../host-driver.ts';
import { uptimeSeconds } from '../uptime.ts';
import type { Cluster } from './cluster.ts';
import { LeaseWatch } from './lease-watch.ts';

const lookEveryMs = 1000;
/** The same rule as for hosts that are given up: a look that takes longer, or comes later, is a gap. */
const gapMs = 4000;
/** The host's lease in Postgres must not wait for a cluster that does not answer. */
const renewMs = 3000;

/**
 * Lets the sandboxes of a host that is a cluster run only as long as the host's lease is valid. Each process of the host
 * writes to a Lease of the cluster how long its own lease is good for, so the host has the longest of them. Where that is
 * over, the guard ends the pods, because not every node has the helper that freezes them. Their disks stay.
 */
export class ClusterFence implements DiskFence {
  readonly #cluster: Cluster;
  readonly #hostId: string;
  readonly #guard: FenceGuard;

  constructor(options: FenceOptions) {
    this.#cluster = options.cluster;
    this.#hostId = options.hostId;
    this.#guard = new FenceGuard(options);
  }

  /** Guards from now on, beside a process of its own (`worker/cluster-guard.ts`). */
  start(): void {
    this.#guard.start();
  }

  async keepOpenUntil(untilSeconds: number): Promise<void> {
    await this.#cluster.renewLease(this.#hostId, Math.max(1, Math.ceil(untilSeconds - uptimeSeconds())), renewMs);
  }

  get isClosed(): boolean {
    return this.#guard.isClosed;
  }

  /** There is nothing to thaw: a sandbox that the guard has ended is paused, and its next resume starts it. */
  async open(): Promise<boolean> {
    return false;
  }

  /** Each disk has a size of its own, and nothing of the platform is on it. */
  async keepFree(): Promise<void> {}

  stop(): Promise<void> {
    return this.#guard.stop();
  }
}

/** Ends the pods of a host whose lease is over, for as long as it is. */
export class FenceGuard {
  readonly #options: FenceOptions;
  readonly #watch = new LeaseWatch(gapMs);
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: FenceOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Ends after the current look. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const { logger, hostId } = this.#options;
    for (;;) {
      await this.look().catch((error) => {
        if (!signal.aborted) logger.warn({ err: error, hostId }, "the host's lease could not be read on the cluster");
      });
      if (signal.aborted) return;
      await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }

  /** One look. @throws {Error} when the cluster does not answer in time */
  async look(): Promise<void> {
    const { cluster, hostId, logger } = this.#options;
    const reading = await cluster.readLease(hostId, gapMs / 2);
    const isOver = this.#watch.read(reading, performance.now());
    if (isOver && !this.#isClosed)
      logger.error({ hostId }, "the host's lease is over; the pods of its sandboxes are ended");
    if (!isOver && this.#isClosed) logger.warn({ hostId }, "the host's lease is valid again");
    this.#isClosed = isOver;
    // Again at each look: a start that was under way may have made another.
    if (isOver) await cluster.endSandboxPods(hostId);
  }
}

interface FenceOptions {
  cluster: Cluster;
  hostId: string;
  logger: DriverLogger;
}
