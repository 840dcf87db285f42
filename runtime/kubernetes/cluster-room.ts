import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node } from '@kubernetes/client-node';
import pLimit from 'p-limit';
import type { SandboxId } from '../../domain/ids.ts';
import type { DiskRoom } from '../disk/disk-room.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { HostLoad, HostMemory } from '../host-driver.ts';
import { type Cluster, SummaryRefused } from './cluster.ts';
import { diskVolume } from './manifests.ts';
import { sandboxContainer } from './names.ts';
import { type NodeSummary, readNodeSummary } from './node-summary.ts';
import { bytesOf, countOf } from './quantities.ts';
import { type QuotaRoom, quotaRoom } from './quota-room.ts';

const everyMs = 5000;
const mib = 1024 ** 2;
/** Kubelets that are asked at once, and how long one may take. */
const askedAtOnce = 16;
const answerMs = 3000;
const listMs = 10_000;
/** Figures that are older say nothing of now: there is no room then. */
const staleMs = 30_000;
/** A summary has some KB for each pod of its node. */
const maxSummaryBytes = 16 * mib;
/** What an unlimited host offers; more than any has, and the platform's database can keep it. */
const unlimitedBytes = 2 ** 50;

/** A pod of the host, as far as its room and use depend on it. */
export interface CountedPod {
  uid: string;
  sandboxId: SandboxId | null;
  node: string | null;
  requestedBytes: number;
  diskBytes: number;
  isRunning: boolean;
}

/**
 * What a cluster has and uses: its nodes and the namespace's quotas as the API server lists them, and the figures of each
 * node's kubelet, asked through the API server. All is read every five seconds, in a bounded time, however many sandboxes
 * there are.
 */
export class ClusterRoom implements HostLoad {
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #memoryShare: number;
  readonly #logger: DriverLogger;
  readonly #pods: () => Iterable<CountedPod>;
  readonly #stopping = new AbortController();
  #nodes: readonly V1Node[] = [];
  #quota: QuotaRoom = quotaRoom([], 1);
  #summaries = new Map<string, NodeSummary>();
  /** Nodes whose kubelet did not answer last time. */
  readonly #silent = new Set<string>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();

  constructor(options: {
    cluster: Cluster;
    namespace: string;
    /** What a pod asks its node for, as a share of its limit. */
    memoryShare: number;
    pods: () => Iterable<CountedPod>;
    logger: DriverLogger;
  }) {
    this.#cluster = options.cluster;
    this.#namespace = options.namespace;
    this.#memoryShare = options.memoryShare;
    this.#pods = options.pods;
    this.#logger = options.logger;
  }

  /** Reads everything once. @throws {Error} when the cluster does not answer, or does not allow it */
  async open(): Promise<void> {
    await this.#look();
    this.#running = this.#lookOn();
  }

  /** Ends after the current look. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  get coreCount(): number {
    const cores = this.#usable().reduce((sum, node) => sum + countOf(node.status?.allocatable?.cpu ?? '0'), 0);
    return Math.max(1, Math.floor(cores));
  }

  memory(): HostMemory {
    const nodes = this.#usable();
    const requested = new Map<string, number>();
    const counts = new Map<string, number>();
    for (const { node, requestedBytes } of this.#pods()) {
      if (node === null) continue;
      requested.set(node, (requested.get(node) ?? 0) + requestedBytes);
      counts.set(node, (counts.get(node) ?? 0) + 1);
    }
    let totalBytes = 0;
    let availableBytes = 0;
    for (const { metadata, status } of nodes) {
      const name = metadata!.name!;
      const allocatable = bytesOf(status?.allocatable?.memory ?? '0');
      totalBytes += allocatable;
      if ((counts.get(name) ?? 0) >= countOf(status?.allocatable?.pods ?? '0')) continue;
      const figures = this.#summaries.get(name);
      // A kubelet that does not answer starts no pods either.
      if (!figures) continue;
      const schedulable = (allocatable - (requested.get(name) ?? 0)) / this.#memoryShare;
      const free = figures.node.availableBytes ?? allocatable;
      availableBytes += Math.max(0, Math.min(allocatable, schedulable, free));
    }
    const { memoryBytes, count, storageBytes } = this.#quota;
    const isStale = performance.now() - this.#readAtMs > staleMs;
    const quotaBytes = count >= 1 && storageBytes > 0 && !isStale ? memoryBytes : 0;
    return {
      totalMb: totalBytes / mib,
      availableMb: Math.min(availableBytes, quotaBytes) / mib,
      // Each node evicts pods under pressure itself.
      stalledPct: 0,
    };
  }

  processorUsed(): number {
    const used = this.#usable().reduce(
      (sum, { metadata }) => sum + (this.#summaries.get(metadata!.name!)?.node.coresUsed ?? 0),
      0,
    );
    return Math.min(1, used / this.coreCount);
  }

  /** The quota's room for disks. Each disk has a size of its own, so nothing is kept free for others. */
  diskRoom(): DiskRoom {
    const bytes = Math.min(unlimitedBytes, this.#quota.storageBytes);
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

  /** Of the sandboxes that run, as their nodes' kubelets have measured them last: some seconds ago. */
  usage(): SandboxUsage[] {
    return [...this.#pods()].flatMap(({ uid, sandboxId, node, diskBytes, isRunning }) => {
      const figures = node === null ? undefined : this.#summaries.get(node)?.pods.get(uid);
      if (!figures || !sandboxId || !isRunning) return [];
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

  /** Nodes that pods of sandboxes may come to. */
  #usable(): V1Node[] {
    return this.#nodes.filter(({ spec, status }) => {
      const isReady = status?.conditions?.some(
        (condition) => condition.type === 'Ready' && condition.status === 'True',
      );
      const isClosed = spec?.taints?.some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
      return isReady && !spec?.unschedulable && !isClosed;
    });
  }

  async #lookOn(): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      await sleep(everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await this.#look().catch((error) => {
        if (!signal.aborted) this.#logger.warn({ err: error }, 'the room of the cluster could not be read');
      });
    }
  }

  async #look(): Promise<void> {
    const [nodes, quotas] = await Promise.all([this.#cluster.listNodes(listMs), this.#cluster.listQuotas(listMs)]);
    this.#nodes = nodes;
    this.#quota = quotaRoom(quotas, this.#memoryShare);
    const summaries = new Map<string, NodeSummary>();
    await pLimit(askedAtOnce).map(nodes, async ({ metadata }) => {
      const name = metadata!.name!;
      const summary = await this.#ask(name);
      if (summary) summaries.set(name, summary);
    });
    this.#summaries = summaries;
    this.#readAtMs = performance.now();
  }

  async #ask(node: string): Promise<NodeSummary | null> {
    try {
      const text = await this.#cluster.nodeSummary(node, { maxBytes: maxSummaryBytes, timeoutMs: answerMs });
      this.#silent.delete(node);
      const of = { namespace: this.#namespace, containerName: sandboxContainer, volumeName: diskVolume };
      return readNodeSummary(text, of);
    } catch (error) {
      // No node would answer, and the host would have no room.
      if (error instanceof SummaryRefused && error.status === 403) throw error;
      if (!this.#silent.has(node)) this.#logger.warn({ err: error, node }, 'a node does not say what it uses');
      this.#silent.add(node);
      return null;
    }
  }
}
