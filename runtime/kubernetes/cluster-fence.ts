import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverLogger } from '../driver-logger.ts';
import type { DiskFence } from '../host-driver.ts';
import { uptimeSeconds } from '../uptime.ts';
import type { Cluster } from './cluster.ts';
import { LeaseWatch } from './lease-watch.ts';

const checkEveryMs = 1000;
/** A longer time between two readings of the lease counts as a gap in the observation. */
const gapMs = 4000;
/**
 * The time limit of a renewal on the cluster, so that a cluster that does not answer does not delay the next renewal of
 * the host's lease in Postgres.
 */
const renewMs = 3000;

/**
 * Lets the sandboxes of a host that is a cluster run only while the host's lease is valid. Each worker process of the
 * host writes to a Lease of the cluster how long the host's lease is still valid, so one process that renews it is
 * enough. When the time is over, the guard ends the pods. It does not freeze them, because not every node has the node
 * helper. Their disks stay.
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

  /** Starts the guard in this process. A separate process (`worker/hosts/cluster-guard.ts`) runs a second one. */
  start(): void {
    this.#guard.start();
  }

  async keepOpenUntil(untilSeconds: number): Promise<void> {
    await this.#cluster.renewLease(this.#hostId, Math.max(1, Math.ceil(untilSeconds - uptimeSeconds())), renewMs);
  }

  get isClosed(): boolean {
    return this.#guard.isClosed;
  }

  /** Does nothing, because no sandbox is frozen. A sandbox that the guard has ended is paused until its next resume. */
  async open(): Promise<boolean> {
    return false;
  }

  /** Does nothing, because each sandbox has its own volume, and the platform keeps no data there. */
  async keepFree(): Promise<void> {}

  stop(): Promise<void> {
    return this.#guard.stop();
  }
}

/** Ends the pods of a host again and again while the host's lease is over. */
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

  /** Returns when the current check has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const { logger, hostId } = this.#options;
    for (;;) {
      await this.check().catch((error) => {
        if (!signal.aborted) logger.warn({ err: error, hostId }, "the host's lease could not be read on the cluster");
      });
      if (signal.aborted) return;
      await sleep(checkEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }

  /** Reads the lease once and ends the pods if it is over. @throws {Error} when the cluster does not answer in time */
  async check(): Promise<void> {
    const { cluster, hostId, logger } = this.#options;
    const reading = await cluster.readLease(hostId, gapMs / 2);
    const isOver = this.#watch.read(reading, performance.now());
    if (isOver && !this.#isClosed)
      logger.error({ hostId }, "the host's lease is over; the pods of its sandboxes are ended");
    if (!isOver && this.#isClosed) logger.warn({ hostId }, "the host's lease is valid again");
    this.#isClosed = isOver;
    // Each check ends the pods again, because a start that was in progress may have made a new pod.
    if (isOver) await cluster.endSandboxPods(hostId);
  }
}

interface FenceOptions {
  cluster: Cluster;
  hostId: string;
  logger: DriverLogger;
}
