import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node } from '@kubernetes/client-node';
import pLimit from 'p-limit';
import type { SandboxId } from '../../domain/ids.ts';
import type { DiskRoom } from '../disk/disk-room.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { HostLoad, HostMemory } from '../host-driver.ts';
import type { Cluster } from './cluster.ts';
import { diskVolume } from './manifests.ts';
import { sandboxContainer } from './names.ts';
import { type NodeSummary, type PodFigures, readNodeSummary } from './node-summary.ts';
import { bytesOf, countOf } from './quantities.ts';
import { type QuotaRoom, quotaRoom } from './quota-room.ts';
import { type AskNode, type PrepareSummaries, SummaryRefused } from './summary-sources.ts';
import { type UseBefore, withoutUseBefore } from './use-before.ts';

const everyMs = 5000;
const mib = 1024 ** 2;
/** Nodes that are asked at once. */
const askedAtOnce = 16;
const listMs = 10_000;
/** Figures that are older say nothing of now: there is no room then. */
const staleMs = 30_000;
/** What an unlimited host offers; more than any has, and the platform's database can keep it. */
const unlimitedBytes = 2 ** 50;

/** A pod of the host, as far as its room and use depend on it. */
export interface CountedPod {
  uid: string;
  sandboxId: SandboxId | null;
  node: string | null;
  requestedBytes: number;
  /** Its memory at most. */
  limitBytes: number;
  diskBytes: number;
  isRunning: boolean;
  /** It waits for a sandbox, and gives its room to each that has none. */
  isFree: boolean;
  useBefore: UseBefore | null;
}

/**
 * What a cluster has and uses: its nodes and the namespace's quotas as the API server lists them, and the figures of each
 * node's kubelet. All is read every five seconds, in a bounded time, however many sandboxes there are.
 */
export class ClusterRoom implements HostLoad {
  readonly #cluster: Cluster;
  readonly #prepareSummaries: PrepareSummaries;
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
    summaries: PrepareSummaries;
    namespace: string;
    /** What a pod asks its node for, as a share of its limit. */
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
    for (const { node, requestedBytes, isFree } of this.#pods()) {
      if (node === null || isFree) continue;
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
    const { memoryBytes, count, storageBytes } = this.#roomOfQuota();
    const isStale = performance.now() - this.#readAtMs > staleMs;
    const quotaBytes = count >= 1 && storageBytes > 0 && !isStale ? memoryBytes : 0;
    return {
      totalMb: totalBytes / mib,
      availableMb: Math.min(availableBytes, quotaBytes) / mib,
      // Each node evicts pods under pressure itself.
      stalledPct: 0,
    };
  }

  /**
   * Whether some node has that much memory for pods at all. Nodes that take none now count, too: they may again. The room
   * is the sum of the nodes, and a pod is on one.
   */
  hasNodeFor(memoryMb: number): boolean {
    return this.#nodes.some(({ status }) => bytesOf(status?.allocatable?.memory ?? '0') >= memoryMb * mib);
  }

  /** Whether the cluster has a node of this name and has not heard from it for too long. */
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

  /** The quota's room for disks. Each disk has a size of its own, so nothing is kept free for others. */
  diskRoom(): DiskRoom {
    const bytes = Math.min(unlimitedBytes, this.#roomOfQuota().storageBytes);
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

  /** What a pod has used, as it was measured last. Null: not yet. */
  figuresOf(uid: string): PodFigures | null {
    for (const { pods } of this.#summaries.values()) {
      const figures = pods.get(uid);
      if (figures) return figures;
    }
    return null;
  }

  /** With what the pods that wait for a sandbox would give back. */
  #roomOfQuota(): QuotaRoom {
    const room = { ...this.#quota };
    for (const { isFree, limitBytes, diskBytes } of this.#pods()) {
      if (!isFree) continue;
      room.count += 1;
      room.memoryBytes += limitBytes;
      room.storageBytes += diskBytes;
    }
    return room;
  }

  /** Nodes that pods of sandboxes may come to. */
  #usable(): V1Node[] {
    return this.#nodes.filter((node) => {
      const { spec } = node;
      const isClosed = spec?.taints?.some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
      return isReady(node) && !spec?.unschedulable && !isClosed;
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
    const [nodes, quotas, askNode] = await Promise.all([
      this.#cluster.listNodes(listMs),
      this.#cluster.listQuotas(listMs),
      this.#prepareSummaries(),
    ]);
    this.#nodes = nodes;
    this.#quota = quotaRoom(quotas, this.#memoryShare);
    const summaries = new Map<string, NodeSummary>();
    let forbidden: SummaryRefused | null = null;
    await pLimit(askedAtOnce).map(nodes, async (node) => {
      const answer = await this.#ask(node, askNode);
      if (answer instanceof SummaryRefused) forbidden = answer;
      else if (answer) summaries.set(node.metadata!.name!, answer);
    });
    // The right is missing everywhere, and the host would have no room. One node alone may say anything.
    if (forbidden && summaries.size === 0) throw forbidden;
    this.#summaries = summaries;
    this.#readAtMs = performance.now();
  }

  /** @returns null: it does not say; an error: it may not be read */
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
