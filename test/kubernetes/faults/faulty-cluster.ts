import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxInspection } from '../../../runtime/driver.ts';
import { until } from '../../support/until.ts';
import { DriverHost, pushAgentImage } from '../support/driver-host.ts';
import { KubernetesCluster } from '../support/kubernetes-cluster.ts';
import { InstalledNodeHelper } from '../support/node-helper.ts';
import { pushBusybox } from '../support/pods.ts';
import { listObjects, nodeThings, podsWithProcesses, readView } from './cluster-inventory.ts';
import { DriverProcess } from './driver-process.ts';

/** The parts that can be killed. */
export const partNames = ['node helper', 'kubelet', 'containerd', 'kube-apiserver', 'host worker'] as const;
export type PartName = (typeof partNames)[number];

const equalTimeoutMs = 120_000;
/** The kubelet removes ended containers once a minute. */
const goneTimeoutMs = 180_000;

/** A cluster with a driver in a separate process. Each part of it can be killed and started again. */
export class FaultyCluster {
  readonly cluster: KubernetesCluster;
  readonly image: string;
  readonly driver: DriverProcess;
  /** The namespace and the disks of the sandboxes. The driver of this host is closed. */
  readonly host: DriverHost;
  #nodeBefore: Set<string> = new Set();
  #helper: InstalledNodeHelper | null = null;
  /** The id of the node helper's container that was killed last. */
  #killedHelper = '';

  private constructor(
    cluster: KubernetesCluster,
    image: string,
    host: DriverHost,
    { agentImage, warmPods }: { agentImage: string; warmPods: number },
  ) {
    this.cluster = cluster;
    this.image = image;
    this.host = host;
    const { namespace } = host;
    const base = { image, cpuCount: 1, memoryMb: 256, storageGb: 1 };
    const warm = { size: { least: warmPods, most: warmPods }, base };
    const { kubeConfigFile } = cluster;
    this.driver = new DriverProcess({ kubeConfigFile, namespace, agentImage, ...(warmPods > 0 && { warm }) });
  }

  /**
   * @param options.hasHelper whether the node has a node helper, so that pauses keep the memory
   * @param options.warmPods the number of warm pods. Each needs a volume of the host.
   */
  static async start({ hasHelper = false, warmPods = 0 } = {}): Promise<FaultyCluster> {
    const cluster = await KubernetesCluster.start();
    try {
      const [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
      const host = await DriverHost.open(cluster, agentImage);
      await host.driver.close();
      const faulty = new FaultyCluster(cluster, image, host, { agentImage, warmPods });
      faulty.#nodeBefore = new Set(await nodeThings(cluster));
      if (hasHelper) faulty.#helper = await InstalledNodeHelper.install(cluster, host.namespace);
      await faulty.driver.start();
      return faulty;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** Kills a part with SIGKILL. */
  async kill(part: PartName): Promise<void> {
    if (part === 'host worker') await this.driver.kill();
    else if (part === 'node helper') this.#killedHelper = await this.#helper!.signal('SIGKILL');
    else await this.cluster.node.program(part).kill('SIGKILL');
  }

  /** Starts a part again after its end and waits until it answers. The kubelet itself restarts the node helper. */
  async up(part: PartName): Promise<void> {
    if (part === 'host worker') await this.driver.start();
    else if (part === 'node helper') await this.#helper!.startedAfter(this.#killedHelper);
    else if (part === 'kubelet') await this.cluster.startKubelet();
    else await this.cluster.startAgain(part);
  }

  /** Waits until the node helper has seen a running sandbox, so that a pause keeps its memory. */
  async whenHelped(sandboxId: SandboxId): Promise<void> {
    await this.#helper!.whenSeen({ name: sandboxId, namespace: this.host.namespace });
  }

  /** Removes the node helper from the cluster. */
  async removeHelper(): Promise<void> {
    await this.#helper!.remove();
    this.#helper = null;
  }

  /**
   * Waits until the driver, the API server and the node's processes agree about every sandbox.
   * @returns the differences that are left after the time limit
   */
  async disagreement(): Promise<string[]> {
    let different: string[] = [];
    const agree = async () => {
      const { states, runningPods } = await readView(this.cluster, this.host.namespace);
      const said = await this.driver.call<SandboxInspection[]>('list');
      const ids = new Set<SandboxId>([...states.keys(), ...said.map(({ sandboxId }) => sandboxId)]);
      different = [...ids].flatMap((sandboxId) => {
        const driver = said.find((each) => each.sandboxId === sandboxId)?.state ?? 'absent';
        const cluster = states.get(sandboxId) ?? 'absent';
        return driver === cluster ? [] : [`${sandboxId}: the driver says ${driver}, the cluster ${cluster}`];
      });
      const others = await this.cluster.core.listNamespacedPod({ namespace: 'default' });
      const helpers = others.items.map(({ metadata }) => metadata!.uid!);
      const withProcesses = podsWithProcesses(this.cluster).filter((uid) => !helpers.includes(uid));
      if (String(withProcesses) !== String(runningPods)) {
        different.push(`pods with processes: ${withProcesses}; running: ${runningPods}`);
      }
      return different.length === 0;
    };
    await until(agree, equalTimeoutMs, 200).catch((error) => {
      if (different.length === 0) throw error;
    });
    return different;
  }

  /**
   * Waits until only objects of these sandboxes and the host's own policies are left.
   * @returns the other objects after the time limit
   */
  async leftObjects(kept: readonly SandboxId[]): Promise<string[]> {
    return this.#left(async () => {
      const lines = await listObjects(this.cluster, this.host.namespace);
      return lines.filter(
        (line) => !this.#hostPolicies.includes(line) && !kept.some((sandboxId) => line.endsWith(` ${sandboxId}`)),
      );
    });
  }

  /**
   * Waits until the only objects are warm pods that no sandbox has taken, and the host's own policies.
   * @returns the other objects after the time limit
   */
  async leftBesideWarmPods(): Promise<string[]> {
    const { namespace } = this.host;
    return this.#left(async () => {
      const [lines, { freeWarm }] = [
        await listObjects(this.cluster, namespace),
        await readView(this.cluster, namespace),
      ];
      const ownLines = new Set(this.#hostPolicies);
      for (const name of freeWarm) ownLines.add(`pod ${name}`).add(`claim ${name}`);
      return lines.filter((line) => !ownLines.has(line));
    });
  }

  /**
   * Waits until the node has no traces of pods, except mounts that a killed kubelet has forgotten.
   * @returns the traces that are left after the time limit
   */
  async leftOnNode(): Promise<string[]> {
    return this.#left(async () => {
      const lines = (await nodeThings(this.cluster)).filter((line) => !this.#nodeBefore.has(line));
      const forgotten = podsWithSubPaths(lines);
      return lines.filter((line) => !line.includes('/volume-subpaths/') && !forgotten.has(line.split(' ').at(-1)!));
    });
  }

  /**
   * The uids of pods whose `subPath` mounts are on the node. A kubelet that is killed while it makes or removes such
   * mounts of a hostPath volume forgets them (open issue kubernetes/kubernetes#135698). The disks of these tests are
   * such volumes.
   */
  async podsWithSubPaths(): Promise<string[]> {
    return [...podsWithSubPaths(await nodeThings(this.cluster))];
  }

  async stop(): Promise<void> {
    await this.driver.kill();
    await this.cluster.stop();
  }

  /** The policies that belong to the host and not to a sandbox: that of isolation probes and that of warm pods. */
  get #hostPolicies(): string[] {
    return [`policy closed-${this.host.namespace}`, `policy warm-${this.host.namespace}`];
  }

  async #left(read: () => Promise<string[]>): Promise<string[]> {
    let left: string[] = [];
    const isEmpty = async () => {
      left = await read();
      return left.length === 0;
    };
    await until(isEmpty, goneTimeoutMs, 500).catch((error) => {
      if (left.length === 0) throw error;
    });
    return left;
  }
}

function podsWithSubPaths(lines: readonly string[]): Set<string> {
  return new Set(lines.flatMap((line) => /^mount .*\/pods\/([^/]+)\/volume-subpaths\//.exec(line)?.[1] ?? []));
}
