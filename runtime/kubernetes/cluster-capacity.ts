import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node } from '@kubernetes/client-node';
import pLimit from 'p-limit';
import type { SandboxId } from '../../domain/ids.ts';
import type { DiskSpace } from '../disk/disk-space.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { HostLoad, HostMemory } from '../host-driver.ts';
import type { Cluster } from './cluster.ts';
import { diskVolume } from './manifests.ts';
import { sandboxContainer } from './names.ts';
import { type NodeSummary, type PodFigures, readNodeSummary } from './node-summary.ts';
import { parseBytes, parseQuantity } from './quantities.ts';
import { type RemainingQuota, remainingQuota } from './remaining-quota.ts';
import { type AskNode, type PrepareSummaries, SummaryRefused } from './summary-sources.ts';
import { type UseBefore, withoutUseBefore } from './use-before.ts';

const everyMs = 5000;
const mib = 1024 ** 2;
const maxConcurrentQueries = 16;
const listMs = 10_000;
/** Older figures say nothing about the present. The cluster then counts as full. */
const staleMs = 30_000;
/** The reported disk space without a quota: more than any cluster has, but the platform's database can store it. */
const unlimitedBytes = 2 ** 50;

/** The facts about a pod from which the capacity and the use of the host are computed. */
export interface CountedPod {
  uid: string;
  sandboxId: SandboxId | null;
  node: string | null;
  requestedBytes: number;
  /** The memory limit of the pod. */
  limitBytes: number;
  diskBytes: number;
  isRunning: boolean;
  /** The pod waits for a sandbox, and ends when a sandbox needs its capacity. */
  isFree: boolean;
  useBefore: UseBefore | null;
}

/**
 * The capacity and the use of a cluster. It reads the nodes and the namespace's quotas from the API server and the
 * figures of each node from its kubelet. It does so every five seconds and in a bounded time, for any number of
 * sandboxes.
 */
export class ClusterCapacity implements HostLoad {
  readonly #cluster: Cluster;
  readonly #prepareSummaries: PrepareSummaries;
  readonly #namespace: string;
  readonly #memoryShare: number;
  readonly #logger: DriverLogger;
  readonly #pods: () => Iterable<CountedPod>;
  readonly #stopping = new AbortController();
  #nodes: readonly V1Node[] = [];
  #quota: RemainingQuota = remainingQuota([], 1);
  #summaries = new Map<string, NodeSummary>();
  /** Nodes whose kubelet did not answer last time. */
  readonly #silent = new Set<string>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();

  constructor(options: {
    cluster: Cluster;
    summaries: PrepareSummaries;
    namespace: string;
    /** The memory request of a pod as a share of its limit. */
    memoryShare: number;
    pods: () => Iterable<CountedPod>;
    logger: DriverLogger;
  }) {
    this.#cluster = options.cluster;
    this.#prepareSummaries = options.summaries;
    this.#namespace = options.namespace;
    this.#memoryShare = options.memoryShare;
    this.#pods = options.pods;
    this.#logger = options.logger;
  }

  /** Reads everything once. @throws {Error} when the cluster does not answer or does not allow the reads */
  async open(): Promise<void> {
    await this.#read();
    this.#running = this.#repeatReads();
  }

  /** Returns when the current read has ended. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  get coreCount(): number {
    const cores = this.#usable().reduce((sum, node) => sum + parseQuantity(node.status?.allocatable?.cpu ?? '0'), 0);
    return Math.max(1, Math.floor(cores));
  }

  memory(): HostMemory {
    const nodes = this.#usable();
    const requested = new Map<string, number>();
    const counts = new Map<string, number>();
    for (const { node, requestedBytes, isFree } of this.#pods()) {
      if (node === null || isFree) continue;
      requested.set(node, (requested.get(node) ?? 0) + requestedBytes);
      counts.set(node, (counts.get(node) ?? 0) + 1);
    }
    let totalBytes = 0;
    let availableBytes = 0;
    for (const { metadata, status } of nodes) {
      const name = metadata!.name!;
      const allocatable = parseBytes(status?.allocatable?.memory ?? '0');
      totalBytes += allocatable;
      if ((counts.get(name) ?? 0) >= parseQuantity(status?.allocatable?.pods ?? '0')) continue;
      const figures = this.#summaries.get(name);
      // A kubelet that does not answer does not start pods either.
      if (!figures) continue;
      const schedulable = (allocatable - (requested.get(name) ?? 0)) / this.#memoryShare;
      const free = figures.node.availableBytes ?? allocatable;
      availableBytes += Math.max(0, Math.min(allocatable, schedulable, free));
    }
    const { memoryBytes, count, storageBytes } = this.#remainingQuota();
    const isStale = performance.now() - this.#readAtMs > staleMs;
    const quotaBytes = count >= 1 && storageBytes > 0 && !isStale ? memoryBytes : 0;
    return {
      totalMb: totalBytes / mib,
      availableMb: Math.min(availableBytes, quotaBytes) / mib,
      // Each node evicts pods itself when its memory is short.
      stalledPct: 0,
    };
  }

  /**
   * Whether any node has this much memory for pods in total. `memory()` returns the sum of all nodes, but a pod runs on
   * one node. Nodes that take no pods now count too, because they may take pods again later.
   */
  hasNodeFor(memoryMb: number): boolean {
    return this.#nodes.some(({ status }) => parseBytes(status?.allocatable?.memory ?? '0') >= memoryMb * mib);
  }

  /** Whether the cluster has a node of this name that is not ready. */
  isAway(name: string): boolean {
    return this.#nodes.some((node) => node.metadata?.name === name && !isReady(node));
  }

  processorUsed(): number {
    const used = this.#usable().reduce(
      (sum, { metadata }) => sum + (this.#summaries.get(metadata!.name!)?.node.coresUsed ?? 0),
      0,
    );
    return Math.min(1, used / this.coreCount);
  }

  /** The storage that the quota leaves. Each disk has a fixed size of its own, so no reserve is kept free. */
  diskSpace(): DiskSpace {
    const bytes = Math.min(unlimitedBytes, this.#remainingQuota().storageBytes);
    const limits = {
      admitBytes: 0,
      pauseBytes: 0,
      reserveBytes: 0,
      admitInodes: 0,
      reserveInodes: 0,
      ballastBytes: 0,
      ballastInodes: 0,
    };
    return {
      bytes,
      inodes: Number.POSITIVE_INFINITY,
      freeBytes: bytes,
      freeInodes: Number.POSITIVE_INFINITY,
      limits,
    };
  }

  /** The use of the running sandboxes, as the kubelets measured it some seconds ago. */
  usage(): SandboxUsage[] {
    return [...this.#pods()].flatMap(({ uid, sandboxId, node, diskBytes, isRunning, useBefore }) => {
      const measured = node === null ? undefined : this.#summaries.get(node)?.pods.get(uid);
      if (!measured || !sandboxId || !isRunning) return [];
      const figures = withoutUseBefore(measured, useBefore);
      const { atMs, sinceMs, cpuSeconds, memoryBytes, receivedBytes, sentBytes, disk } = figures;
      return [
        {
          ...{ sandboxId, atMs, sinceMs, cpuSeconds, memoryBytes, receivedBytes, sentBytes },
          diskBytes: disk?.usedBytes ?? 0,
          diskTotalBytes: disk?.capacityBytes ?? diskBytes,
        },
      ];
    });
  }

  /** The last measurement of a pod. Null: the pod has not been measured yet. */
  findFigures(uid: string): PodFigures | null {
    for (const { pods } of this.#summaries.values()) {
      const figures = pods.get(uid);
      if (figures) return figures;
    }
    return null;
  }

  /** The remaining quota, including the part that warm pods without a sandbox hold. */
  #remainingQuota(): RemainingQuota {
    const remaining = { ...this.#quota };
    for (const { isFree, limitBytes, diskBytes } of this.#pods()) {
      if (!isFree) continue;
      remaining.count += 1;
      remaining.memoryBytes += limitBytes;
      remaining.storageBytes += diskBytes;
    }
    return remaining;
  }

  /** The nodes on which the scheduler may place pods of sandboxes. */
  #usable(): V1Node[] {
    return this.#nodes.filter((node) => {
      const { spec } = node;
      const isClosed = spec?.taints?.some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
      return isReady(node) && !spec?.unschedulable && !isClosed;
    });
  }

  async #repeatReads(): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      await sleep(everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await this.#read().catch((error) => {
        if (!signal.aborted) this.#logger.warn({ err: error }, 'the room of the cluster could not be read');
      });
    }
  }

  async #read(): Promise<void> {
    const [nodes, quotas, askNode] = await Promise.all([
      this.#cluster.listNodes(listMs),
      this.#cluster.listQuotas(listMs),
      this.#prepareSummaries(),
    ]);
    this.#nodes = nodes;
    this.#quota = remainingQuota(quotas, this.#memoryShare);
    const summaries = new Map<string, NodeSummary>();
    let forbidden: SummaryRefused | null = null;
    await pLimit(maxConcurrentQueries).map(nodes, async (node) => {
      const answer = await this.#ask(node, askNode);
      if (answer instanceof SummaryRefused) forbidden = answer;
      else if (answer) summaries.set(node.metadata!.name!, answer);
    });
    // If every node refuses, the right is missing, and the host would have no capacity. A single node may refuse for
    // reasons of its own.
    if (forbidden && summaries.size === 0) throw forbidden;
    this.#summaries = summaries;
    this.#readAtMs = performance.now();
  }

  /** @returns null when the node gives no valid summary; the error when it refuses because a right is missing */
  async #ask(node: V1Node, askNode: AskNode): Promise<NodeSummary | SummaryRefused | null> {
    const name = node.metadata!.name!;
    try {
      const of = { namespace: this.#namespace, containerName: sandboxContainer, volumeName: diskVolume };
      const summary = readNodeSummary(await askNode(node), of);
      this.#silent.delete(name);
      return summary;
    } catch (error) {
      if (!this.#silent.has(name)) this.#logger.warn({ err: error, node: name }, 'a node does not say what it uses');
      this.#silent.add(name);
      return error instanceof SummaryRefused && error.status === 403 ? error : null;
    }
  }
}

function isReady({ status }: V1Node): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;
}
