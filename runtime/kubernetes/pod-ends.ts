import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterCapacity } from './cluster-capacity.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { EndReports } from './end-reports.ts';
import type { PodMounts } from './mounts/pod-mounts.ts';
import { nodeAway, notStarted } from './start-errors.ts';

const askAgainMs = 200;

/** Ends pods for the driver. Such an end is not reported as an exit of the sandbox. */
export class PodEnds {
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #capacity: ClusterCapacity;
  readonly #reports: EndReports;
  readonly #mounts: PodMounts | null;
  readonly #seconds: number;

  /** @param seconds how long a pod may take until it is gone */
  constructor(of: {
    cluster: Cluster;
    watch: ClusterWatch;
    capacity: ClusterCapacity;
    reports: EndReports;
    mounts: PodMounts | null;
    seconds: number;
  }) {
    this.#cluster = of.cluster;
    this.#watch = of.watch;
    this.#capacity = of.capacity;
    this.#reports = of.reports;
    this.#mounts = of.mounts;
    this.#seconds = of.seconds;
  }

  /** Deletes a pod without waiting for its end. @returns its uid; null when there is no such pod */
  async begin(name: string): Promise<string | null> {
    const seen = this.#watch.pod(name);
    if (seen) this.#reports.expect(seen);
    return this.#cluster.deletePod(name);
  }

  /** Deletes the pod of a sandbox without waiting for its end. */
  async beginSandbox(sandboxId: SandboxId): Promise<void> {
    await Promise.all(this.#listNames(sandboxId).map((name) => this.begin(name)));
  }

  /**
   * Ends the pod of a sandbox and its mounts, and waits until the node has ended the processes.
   * @throws {DriverError} when the pod is not gone in time; `host_unavailable` when its node does not answer
   */
  async endSandbox(sandboxId: SandboxId, signal?: AbortSignal): Promise<void> {
    const names = this.#listNames(sandboxId);
    const uids = await Promise.all(names.map((name) => this.begin(name)));
    await this.#mounts?.end(sandboxId);
    await Promise.all(names.map((name, at) => this.#whenGone(name, uids[at]!, signal)));
  }

  /**
   * Ends a pod and waits until its node has ended the processes.
   * @throws {DriverError} when the pod is not gone in time
   */
  async end(name: string, signal?: AbortSignal): Promise<void> {
    await this.#whenGone(name, await this.begin(name), signal);
  }

  /**
   * The names of a sandbox's pods. The sandbox's id is always one, because the watch may not have seen that pod yet.
   */
  #listNames(sandboxId: SandboxId): string[] {
    return [...new Set<string>([sandboxId, this.#watch.findPod(sandboxId)?.metadata?.name ?? sandboxId])];
  }

  async #whenGone(name: string, uid: string | null, signal?: AbortSignal): Promise<void> {
    if (uid === null) return;
    const late = () => {
      const pod = this.#watch.pod(name);
      return pod && this.isStuck(pod) ? nodeAway() : notStarted('its last pod is not gone in time');
    };
    if (this.#watch.pod(name)?.metadata?.uid === uid) {
      const gone = () => (this.#watch.pod(name)?.metadata?.uid === uid ? undefined : true);
      await this.#watch.until(name, gone, { seconds: this.#seconds, late, ...(signal && { signal }) });
      return;
    }
    // The watch has not seen this pod yet, or has already seen its end, so the API server is asked.
    for (const endMs = performance.now() + this.#seconds * 1000; await this.#cluster.isThere(name, uid); ) {
      if (performance.now() > endMs) throw late();
      await sleep(askAgainMs, undefined, { signal });
    }
  }

  /** Whether a pod is being deleted on a node that does not answer. Its processes may run until the node is back. */
  isStuck({ metadata, spec }: V1Pod): boolean {
    return metadata?.deletionTimestamp !== undefined && this.#capacity.isAway(spec?.nodeName ?? '');
  }
}
