import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import { CancellableWork } from '../cancellable-work.ts';
import type { DiskSpace } from '../disk/disk-space.ts';
import {
  type CreateOptions,
  DriverError,
  type ImageBuilds,
  type PauseResult,
  type SandboxExit,
  type SandboxInspection,
  type SandboxPlace,
  type SandboxSpec,
  type SandboxUsage,
} from '../driver.ts';
import type { DiskUse, HostDriver, LinkedSandbox, PortRange } from '../host-driver.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { requireSandboxName } from '../sandbox-name.ts';
import { Cluster } from './cluster.ts';
import { ClusterCapacity } from './cluster-capacity.ts';
import { ClusterFence } from './cluster-fence.ts';
import { NamedImages } from './cluster-images.ts';
import { ClusterWatch } from './cluster-watch.ts';
import { countedPods } from './counted-pods.ts';
import { EndReports, isByItself, type SandboxEnd, toSandboxExit } from './end-reports.ts';
import { ClusterImageBuilds } from './image-builds.ts';
import { ImageInspector } from './image-inspector.ts';
import { LostAgents } from './lost-agents.ts';
import { buildClosedPolicy, toRequestShare } from './manifests.ts';
import { createMounts, type PodMounts, requireMountable } from './mounts/pod-mounts.ts';
import { annotations, hostSelector, isFreeWarm, isFreezeWanted, readRun } from './names.ts';
import { NoImageBuilds } from './no-image-builds.ts';
import type { KubernetesDriverOptions } from './options.ts';
import { PodEnds } from './pod-ends.ts';
import { PodFreezer } from './pod-freezer.ts';
import { toSandboxPlace } from './pod-place.ts';
import { PodStarts } from './pod-starts.ts';
import { findPodEnd } from './pod-state.ts';
import { parseBytes } from './quantities.ts';
import { isOfRun, SandboxPods } from './sandbox-pods.ts';
import { SandboxStarter } from './sandbox-starter.ts';
import { absent, noUdpPorts, startFailure } from './start-errors.ts';
import type { StartWork } from './start-work.ts';
import { createSummarySource } from './summary-sources.ts';
import { UdpPorts } from './udp-ports.ts';
import { UdpRepair } from './udp-repair.ts';
import type { WarmPods } from './warm-pods.ts';
import { setUpWarmPods } from './warm-setup.ts';

/** How long the API server may take when the driver opens. */
const openSeconds = 30;
/**
 * Opens a namespace of a cluster as a host. The driver lists the pods and disks once and then watches them. It also
 * reports sandboxes that ended before it was opened.
 * @throws {Error} when the cluster does not answer, denies access, or does not accept the UDP ports
 */
export async function openKubernetesDriver(options: KubernetesDriverOptions): Promise<KubernetesDriver> {
  const driver = new KubernetesDriver(options);
  try {
    await driver.open();
  } catch (error) {
    await driver.close();
    throw error;
  }
  return driver;
}

/** Runs each sandbox as a pod with its own disk, which outlives the pod. All state is in the cluster's objects. */
export class KubernetesDriver implements HostDriver {
  /** Null, because pods cannot reach services of the host. */
  readonly gateway = null;
  /** Empty, because only the operator knows the address at which clients reach UDP ports. */
  readonly hostAddress = '';
  readonly subnet: string;
  readonly udpRange: PortRange | null;
  readonly diskFolder = null;
  readonly load: ClusterCapacity;
  readonly fence: ClusterFence;
  readonly builds: ImageBuilds;
  readonly builtinImages: NamedImages;
  readonly #options: KubernetesDriverOptions;
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #pods: SandboxPods;
  readonly #lock = new KeyedLock();
  readonly #work = new CancellableWork(this.#lock);
  readonly #agents: LostAgents;
  readonly #reports: EndReports;
  readonly #ends: PodEnds;
  readonly #images: ImageInspector;
  readonly #starter: SandboxStarter;
  readonly #freezer: PodFreezer;
  /** Null: this host makes no images. */
  readonly #builds: ClusterImageBuilds | null;
  /** Null: sandboxes have no UDP ports. */
  readonly #udp: UdpPorts | null;
  readonly #udpRepair: UdpRepair | null;
  /** Null: sandboxes have no mounts of object storage. */
  readonly #mounts: PodMounts | null;
  /** Null: there are no warm pods. */
  readonly #warm: WarmPods | null;
  readonly #seconds: { podStart: number; podEnd: number; agentStart: number };

  constructor(options: KubernetesDriverOptions) {
    this.#options = options;
    this.#cluster = new Cluster(options.config, options.namespace);
    const { namespace, hostId, logger, udp } = options;
    const of = { namespace, selector: hostSelector(hostId), hasServices: udp !== undefined, logger };
    this.#watch = new ClusterWatch(options.config, this.#cluster, of);
    this.#pods = new SandboxPods(this.#watch);
    this.#udp = udp ? new UdpPorts(this.#cluster, this.#watch, { namespace, hostId, udp }) : null;
    const repaired = { watch: this.#watch, work: this.#work, lock: this.#lock, logger };
    this.#udpRepair = this.#udp && new UdpRepair({ udp: this.#udp, ...repaired });
    this.udpRange = udp?.range ?? null;
    const { helperTimeoutSeconds: helper } = options;
    const helperSeconds = { mark: helper ?? 2, freeze: helper ?? 10, thaw: helper ?? 30 };
    this.#freezer = new PodFreezer({ cluster: this.#cluster, watch: this.#watch, seconds: helperSeconds, logger });
    this.subnet = options.podNetwork;
    const { names, images } = options.builtinImages ?? { names: [], images: {} };
    this.builtinImages = new NamedImages(names, images);
    this.fence = new ClusterFence({ cluster: this.#cluster, hostId, logger });
    const memoryShare = toRequestShare(options).memory;
    const pods = () => countedPods(this.#watch);
    const summaries = createSummarySource(options.config, options.nodeFigures);
    this.load = new ClusterCapacity({ cluster: this.#cluster, summaries, namespace, memoryShare, pods, logger });
    const starts = new PodStarts({ atOnce: options.maxConcurrentStarts, coreCount: () => this.load.coreCount });
    const { podStartTimeoutSeconds = 120, podEndTimeoutSeconds = 60, agentStartTimeoutSeconds = 30 } = options;
    this.#seconds = {
      podStart: podStartTimeoutSeconds,
      podEnd: podEndTimeoutSeconds,
      agentStart: agentStartTimeoutSeconds,
    };
    this.#builds = options.buildsFolder === undefined ? null : this.#buildsIn(options.buildsFolder);
    this.builds = this.#builds ?? new NoImageBuilds();
    this.#mounts = createMounts(options, this.#cluster, this.#watch, podStartTimeoutSeconds);
    this.#reports = new EndReports(this.#cluster, this.#watch, logger);
    const reports = this.#reports;
    const common = { cluster: this.#cluster, watch: this.#watch, capacity: this.load, options, starts, reports };
    this.#ends = new PodEnds({ ...common, mounts: this.#mounts, seconds: podEndTimeoutSeconds });
    this.#images = new ImageInspector({ ...common, ends: this.#ends, podStartSeconds: podStartTimeoutSeconds });
    const warm = options.warm
      ? setUpWarmPods(options.warm, {
          ...common,
          images: this.#images,
          ends: this.#ends,
          load: this.load,
          fence: this.fence,
          seconds: this.#seconds,
          isBusy: () => this.#work.isBusy,
        })
      : null;
    this.#warm = warm?.pods ?? null;
    this.#starter = new SandboxStarter({
      ...common,
      images: this.#images,
      ends: this.#ends,
      freezer: this.#freezer,
      udp: this.#udp,
      mounts: this.#mounts,
      warm,
      seconds: this.#seconds,
    });
    this.#agents = new LostAgents({ work: this.#work, starter: this.#starter, images: this.#images, logger });
  }

  async open(): Promise<void> {
    await this.#cluster.applyPolicy(buildClosedPolicy(this.#options), AbortSignal.timeout(openSeconds * 1000));
    await this.#watch.open((pod, isGone) => {
      this.#reports.notice(pod, isGone);
      if (!isGone) this.#freezer.notice(pod);
      this.#warm?.notice(pod, isGone);
    });
    this.#freezer.open();
    await this.#udp?.open();
    await this.#builds?.open();
    await this.load.open();
    this.fence.start();
    await this.#warm?.open();
  }

  /** As `SandboxDriver.create`. */
  create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const pod = this.#starter.readyPod(spec.sandboxId);
      if (pod && isFreezeWanted(pod) && isOfRun(pod, spec)) {
        return { ...(await this.#starter.thaw(work, pod)), from: 'existing' };
      }
      return this.#existingPlace(spec) ?? this.#starter.start(work);
    });
  }

  /** As `SandboxDriver.resume`. Thaws a sandbox whose pause kept the memory; otherwise starts it on its disk. */
  resume(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const pod = this.#starter.readyPod(spec.sandboxId);
      if (pod && isFreezeWanted(pod)) return this.#starter.thaw(work, pod);
      if (pod) {
        await this.#number(pod, spec);
        return toSandboxPlace(pod, 'existing', this.#starter.findSlots(spec, pod));
      }
      this.#requireDisk(spec.sandboxId);
      return this.#starter.start(work);
    });
  }

  /** As `SandboxDriver.restart`. */
  restart(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const existing = this.#existingPlace(spec);
      if (existing) return existing;
      this.#requireDisk(spec.sandboxId);
      return this.#starter.start(work);
    });
  }

  /** As `SandboxDriver.requireStartable`. */
  async requireStartable(spec: SandboxSpec): Promise<void> {
    this.#requireDisk(spec.sandboxId);
  }

  /**
   * Freezes the processes if the node has the node helper; otherwise ends them and keeps the disk.
   * @returns whether the memory or only the disk is kept
   * @throws {DriverError} `runtime_exited`, `sandbox_absent`
   */
  async pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<PauseResult> {
    return this.#work.run(sandboxId, signal, async (alive) => {
      const pod = this.#watch.findPod(sandboxId);
      const end = pod && findPodEnd(pod);
      if (pod && end && isByItself(end) && !pod.metadata?.deletionTimestamp) {
        throw new DriverError('runtime_exited', "The sandbox's processes have ended", {
          exit: toSandboxExit(pod, end),
        });
      }
      if (!this.#watch.findDisk(sandboxId)) throw absent();
      const running = this.#starter.readyPod(sandboxId);
      if (running && (await this.#freezer.freeze(running, alive))) return { kept: 'memory' };
      await this.#ends.endSandbox(sandboxId, alive);
      return { kept: 'disk' };
    });
  }

  /** As `SandboxDriver.stop`. */
  async stop(sandboxId: SandboxId): Promise<void> {
    requireSandboxName(sandboxId);
    this.#work.cancel(sandboxId, 'The sandbox was stopped');
    await this.#lock.run(sandboxId, async () => {
      await this.#ends.endSandbox(sandboxId);
      await this.#udp?.remove(sandboxId);
    });
  }

  /** As `SandboxDriver.remove`. */
  async remove(sandboxId: SandboxId): Promise<void> {
    requireSandboxName(sandboxId);
    this.#work.cancel(sandboxId, 'The sandbox was removed');
    this.#agents.forget(sandboxId);
    await this.#lock.run(sandboxId, async () => {
      await this.#ends.endSandbox(sandboxId);
      await this.#udp?.remove(sandboxId);
      await this.#builds?.release(sandboxId);
      await this.#mounts?.remove(sandboxId);
      await this.#cluster.deletePolicy(sandboxId);
      const disk = this.#watch.findDisk(sandboxId)?.metadata?.name ?? sandboxId;
      for (const name of new Set<string>([sandboxId, disk])) await this.#cluster.deleteDisk(name);
      await this.#watch.until(sandboxId, () => (this.#watch.findDisk(sandboxId) ? undefined : true), {
        seconds: this.#seconds.podEnd,
        late: () => new Error('the disk of a sandbox is not gone in time'),
      });
    });
  }

  inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    return this.#pods.inspect(sandboxId);
  }

  list(): Promise<SandboxInspection[]> {
    return this.#pods.list();
  }

  sandboxAt(address: string): Promise<SandboxId | null> {
    return this.#pods.sandboxAt(address);
  }

  /**
   * Removes everything of this host that belongs to no sandbox of the list.
   * @returns the sandboxes that are not in the list
   */
  async reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<SandboxId[]> {
    const known = new Set(knownSandboxIds);
    const there = new Set([...this.#pods.known(), ...(this.#udp?.sandboxes ?? [])]);
    const unknown = [...there].filter((sandboxId) => !known.has(sandboxId));
    const settled = await Promise.allSettled(unknown.map((sandboxId) => this.remove(sandboxId)));
    for (const [at, result] of settled.entries()) {
      if (result.status === 'fulfilled') continue;
      const fields = { err: result.reason, sandboxId: unknown[at] };
      this.#options.logger.error(fields, 'an unknown sandbox could not be removed');
    }
    await this.#images.removeAbandoned();
    await this.#builds?.removeAbandoned();
    await this.#mounts?.removeOrphans();
    await this.#warm?.removeAbandoned();
    return unknown;
  }

  /** As `SandboxDriver.onExit`. The exit code is null if the cluster ended the sandbox. */
  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#reports.onExit(listener);
  }

  /**
   * Calls back for each sandbox that was ready and whose processes end without a `stop` or `pause`, with the reason.
   */
  onEnd(listener: (end: SandboxEnd) => unknown): void {
    this.#reports.onEnd(listener);
  }

  /** As `SandboxDriver.usage`. The kubelets measured the figures some seconds ago. */
  async usage(): Promise<SandboxUsage[]> {
    return this.load.usage();
  }

  diskSpace(): DiskSpace {
    return this.load.diskSpace();
  }

  diskCapacityBytes(): number {
    const promised = this.#watch
      .disks()
      .filter((disk) => !isFreeWarm(disk))
      .reduce((sum, { spec }) => sum + parseBytes(spec?.resources?.requests?.storage ?? '0'), 0);
    return this.diskSpace().freeBytes + promised;
  }

  /** Empty, because each disk has a fixed size. A full disk affects only its own sandbox. */
  async diskUse(): Promise<DiskUse[]> {
    return [];
  }

  /** Ends the processes instead of freezing them: not every node has the node helper, and a freeze is not immediate. */
  halt(sandboxId: SandboxId): Promise<void> {
    return this.endNow(sandboxId);
  }

  /** As `HostDriver.endNow`. The sandbox's node ends the processes within a second or two. */
  async endNow(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was ended');
    await this.#ends.beginSandbox(sandboxId);
  }

  /**
   * As `SandboxDriver.exposeUdp`. The nodes apply it with a short delay.
   * @throws {DriverError} also when a port is in use
   */
  async exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void> {
    if (!this.#udp && ports.length > 0) throw noUdpPorts();
    await this.#lock.run(sandboxId, async () => {
      const disk = this.#watch.findDisk(sandboxId);
      if (!disk) throw absent();
      await this.#udp?.lead(disk, ports);
    });
  }

  /**
   * As `HostDriver.repairLinks`, for the Services of UDP ports. The cluster itself maintains links and routes of pods.
   */
  async repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    return (await this.#udpRepair?.repair(sandboxes)) ?? [];
  }

  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    return this.#agents.lost(sandboxIds);
  }

  restartAgent(spec: SandboxSpec): Promise<void> {
    return this.#agents.restart(spec);
  }

  /** The number of warm pods that wait for a sandbox. */
  get poolReady(): number {
    return this.#warm?.ready() ?? 0;
  }

  get pooledImages(): readonly string[] {
    return this.#warm?.images ?? [];
  }

  async dropPooled(image: string): Promise<void> {
    await this.#warm?.drop(image);
  }

  /** Stops the watch and ends the warm pods. Sandboxes keep running. */
  async close(): Promise<void> {
    await this.#warm?.close();
    await Promise.all([this.fence.stop(), this.load.close(), this.#agents.close(), this.#freezer.close()]);
    await this.#watch.close();
  }

  /** The objects of the cluster that are not of a sandbox belong to the installation. */
  async leaveIfEmpty(): Promise<void> {}

  #buildsIn(folder: string): ClusterImageBuilds {
    return new ClusterImageBuilds({
      folder,
      config: this.#options.config,
      cluster: this.#cluster,
      watch: this.#watch,
      options: this.#options,
      podStartSeconds: this.#seconds.podStart,
      findPod: (sandboxId) => this.#starter.readyPod(sandboxId),
      readFacts: (image, signal) => this.#images.factsOfImage(image, signal),
      alone: (sandboxId, signal, work) => this.#work.run(sandboxId, signal, work),
    });
  }

  #existingPlace(spec: SandboxSpec): SandboxPlace | null {
    const pod = this.#starter.readyPod(spec.sandboxId);
    return pod && !isFreezeWanted(pod) && isOfRun(pod, spec)
      ? toSandboxPlace(pod, 'existing', this.#starter.findSlots(spec, pod))
      : null;
  }

  async #number(pod: V1Pod, { run }: SandboxSpec): Promise<void> {
    if (run === null || readRun(pod) === run) return;
    const { name, uid } = pod.metadata!;
    await this.#cluster.annotatePod(name!, uid!, { [annotations.run]: `${run}` });
  }

  #requireDisk(sandboxId: SandboxId): void {
    if (!this.#watch.findDisk(sandboxId)) throw absent();
  }

  async #begin(
    spec: SandboxSpec,
    { onPhase = () => undefined, signal: cancelled }: CreateOptions,
    act: (work: StartWork) => Promise<SandboxPlace>,
  ): Promise<SandboxPlace> {
    requireSandboxName(spec.sandboxId);
    return this.#work.run(spec.sandboxId, cancelled, async (signal) => {
      if (spec.udpPorts.length > 0 && !this.#udp) throw noUdpPorts();
      requireMountable(spec, { hasMounts: this.#mounts !== null, runtimeClass: this.#options.runtimeClass });
      try {
        return await act({ spec, onPhase, signal });
      } catch (error) {
        throw startFailure(error, signal);
      }
    });
  }
}
