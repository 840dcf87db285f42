import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/object-storage.ts';
import type { UdpMapping } from '../../domain/ports.ts';
import { AgentRestarts } from '../agent-restarts.ts';
import { CancellableWork } from '../cancellable-work.ts';
import type { DiskRoom } from '../disk/disk-room.ts';
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
import { PhaseReports } from '../phase-reports.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { AgentClient, AgentError, agentPort } from '../sandbox-agent/agent-client.ts';
import { whenProbeSucceeds } from '../sandbox-agent/ready-probe.ts';
import { AgentProbes, refusesConnections } from './agent-probes.ts';
import { isGone, isOverQuota } from './api-errors.ts';
import { Cluster } from './cluster.ts';
import { ClusterFence } from './cluster-fence.ts';
import { NamedImages } from './cluster-images.ts';
import { ClusterRoom, type CountedPod } from './cluster-room.ts';
import { ClusterWatch } from './cluster-watch.ts';
import { ClusterImageBuilds, isOfBuild } from './image-builds.ts';
import { type ImageFacts, readImageFacts } from './image-facts.ts';
import { diskOf, lookPodOf, podOf, policyOf, requestShareOf, startAgentWords } from './manifests.ts';
import { isMountPod } from './mounts/names.ts';
import { PodMounts, requireMountable } from './mounts/pod-mounts.ts';
import { annotations, isFreezeWanted, isFrozen, runOf, sandboxContainer, sandboxOf, selectorOf } from './names.ts';
import { NoImageBuilds } from './no-image-builds.ts';
import type { KubernetesDriverOptions } from './options.ts';
import { PodFreezer } from './pod-freezer.ts';
import { PodStarts } from './pod-starts.ts';
import { addressOf, endOf, isUnschedulable, type PodEnd, startFailureOf } from './pod-state.ts';
import { bytesOf } from './quantities.ts';
import { UdpPorts } from './udp-ports.ts';

const askAgainMs = 200;
/** How long the agent may take to answer after a thaw. */
const thawSeconds = 5;
/** Time to hand over the boot document. */
const agentRestartTimeoutMs = 20_000;

/** How the processes of a sandbox ended, with the cluster's reason. */
export interface SandboxEnd extends PodEnd {
  sandboxId: SandboxId;
  /** The start or resume that brought them up. */
  run: number | null;
}

/**
 * Opens a namespace of a cluster as a host: lists its pods and disks once, and watches them from then on. It also
 * reports pods that ended before.
 * @throws {Error} when the cluster does not answer, does not allow it, or does not take the UDP ports
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

/** Runs each sandbox as a pod with a disk of its own that outlives it. The cluster alone knows the state. */
export class KubernetesDriver implements HostDriver {
  /** A pod reaches nothing of the platform: there is no address for services of the host. */
  readonly gateway = null;
  /** Where clients reach UDP ports is known to the operator alone. */
  readonly hostAddress = '';
  readonly subnet: string;
  readonly udpRange: PortRange | null;
  readonly diskFolder = null;
  readonly load: ClusterRoom;
  readonly fence: ClusterFence;
  readonly builds: ImageBuilds;
  readonly builtinImages: NamedImages;
  readonly poolReady = 0;
  readonly pooledImages: readonly string[] = [];
  readonly #options: KubernetesDriverOptions;
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #lock = new KeyedLock();
  readonly #work = new CancellableWork(this.#lock);
  readonly #agentProbes = new AgentProbes();
  readonly #agentRestarts: AgentRestarts;
  /** By image; a failed look is not kept. */
  readonly #facts = new Map<string, Promise<ImageFacts>>();
  /** Pods that this driver ends, or that are not ready yet, by uid: their end is no news. */
  readonly #ended = new Set<string>();
  readonly #freezer: PodFreezer;
  readonly #starts: PodStarts;
  /** Null: this host makes no images. */
  readonly #builds: ClusterImageBuilds | null;
  /** Null: sandboxes have no UDP ports. */
  readonly #udp: UdpPorts | null;
  /** Null: sandboxes have no mounts of object storage. */
  readonly #mounts: PodMounts | null;
  readonly #seconds: { podStart: number; podEnd: number; agentStart: number };
  #onEnd: ((end: SandboxEnd) => unknown) | undefined;
  #onExit: ((exit: SandboxExit) => unknown) | undefined;

  constructor(options: KubernetesDriverOptions) {
    this.#options = options;
    this.#cluster = new Cluster(options.config, options.namespace);
    const { namespace, hostId, logger, udp } = options;
    const of = { namespace, selector: selectorOf(hostId), hasServices: udp !== undefined, logger };
    this.#watch = new ClusterWatch(options.config, this.#cluster, of);
    this.#udp = udp ? new UdpPorts(this.#cluster, this.#watch, { namespace, hostId, udp }) : null;
    this.udpRange = udp?.range ?? null;
    this.#freezer = new PodFreezer(this.#cluster, this.#watch, options.helperTimeoutSeconds ?? 10);
    this.#agentRestarts = new AgentRestarts(logger);
    this.subnet = options.podNetwork;
    const { names, images } = options.builtinImages ?? { names: [], images: {} };
    this.builtinImages = new NamedImages(names, images);
    this.fence = new ClusterFence({ cluster: this.#cluster, hostId, logger });
    const memoryShare = requestShareOf(options).memory;
    const pods = () => this.#counted();
    this.load = new ClusterRoom({ cluster: this.#cluster, namespace, memoryShare, pods, logger });
    this.#starts = new PodStarts({ atOnce: options.startsAtOnce, coreCount: () => this.load.coreCount });
    const { podStartTimeoutSeconds = 120, podEndTimeoutSeconds = 60, agentStartTimeoutSeconds = 30 } = options;
    this.#seconds = {
      podStart: podStartTimeoutSeconds,
      podEnd: podEndTimeoutSeconds,
      agentStart: agentStartTimeoutSeconds,
    };
    this.#builds = options.buildsFolder === undefined ? null : this.#buildsIn(options.buildsFolder);
    this.builds = this.#builds ?? new NoImageBuilds();
    this.#mounts = mountsOf(options, this.#cluster, this.#watch, podStartTimeoutSeconds);
  }

  async open(): Promise<void> {
    await this.#watch.open((pod, isGone) => this.#notice(pod, isGone));
    await this.#udp?.open();
    await this.#builds?.open();
    await this.load.open();
    this.fence.start();
  }

  /** As `SandboxDriver.create`. */
  create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => this.#existingPlace(spec) ?? this.#start(work));
  }

  /** As `SandboxDriver.resume`: a thaw where the pause has kept the memory, and a start on the disk otherwise. */
  resume(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const pod = this.#readyPod(spec.sandboxId);
      if (pod && isFreezeWanted(pod)) return this.#thaw(work, pod);
      if (pod) {
        await this.#number(pod, spec);
        return placeOf(pod, 'existing', this.#slotsOf(spec, pod));
      }
      this.#requireDisk(spec.sandboxId);
      return this.#start(work);
    });
  }

  /** As `SandboxDriver.restart`. */
  restart(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const existing = this.#existingPlace(spec);
      if (existing) return existing;
      this.#requireDisk(spec.sandboxId);
      return this.#start(work);
    });
  }

  /** As `SandboxDriver.requireStartable`. */
  async requireStartable(spec: SandboxSpec): Promise<void> {
    this.#requireDisk(spec.sandboxId);
  }

  /**
   * Freezes the processes where the node has its helper; otherwise ends them and keeps the disk.
   * @returns what is kept
   * @throws {DriverError} `runtime_exited`, `sandbox_absent`
   */
  async pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<PauseResult> {
    return this.#work.run(sandboxId, signal, async (alive) => {
      const pod = this.#watch.pod(sandboxId);
      const end = pod && endOf(pod);
      if (pod && end && byItself(end) && !pod.metadata?.deletionTimestamp) {
        throw new DriverError('runtime_exited', "The sandbox's processes have ended", { exit: exitOf(pod, end) });
      }
      if (!this.#watch.disk(sandboxId)) throw absent();
      const running = this.#readyPod(sandboxId);
      if (running && (await this.#freezer.freeze(running, alive))) return { kept: 'memory' };
      await this.#endPod(sandboxId, alive);
      return { kept: 'disk' };
    });
  }

  /** As `SandboxDriver.stop`. */
  async stop(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was stopped');
    await this.#lock.run(sandboxId, async () => {
      await this.#endPod(sandboxId);
      await this.#udp?.remove(sandboxId);
    });
  }

  /** As `SandboxDriver.remove`. */
  async remove(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was removed');
    this.#agentRestarts.forget(sandboxId);
    await this.#lock.run(sandboxId, async () => {
      await this.#endPod(sandboxId);
      await this.#udp?.remove(sandboxId);
      await this.#builds?.release(sandboxId);
      await this.#mounts?.remove(sandboxId);
      await this.#cluster.deletePolicy(sandboxId);
      await this.#cluster.deleteDisk(sandboxId);
      await this.#watch.until(sandboxId, () => (this.#watch.disk(sandboxId) ? undefined : true), {
        seconds: this.#seconds.podEnd,
        late: () => new Error('the disk of a sandbox is not gone in time'),
      });
    });
  }

  /** As `SandboxDriver.inspect`, from what the watch has seen. */
  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const pod = this.#watch.pod(sandboxId);
    const disk = this.#watch.disk(sandboxId);
    if (!pod) return { sandboxId, state: disk ? 'exited' : 'absent', run: null, place: null, exit: null };
    const run = runOf(pod);
    const end = endOf(pod);
    if (end) {
      const exit = byItself(end) && end.exitCode !== null ? exitOf(pod, end) : null;
      return { sandboxId, state: 'exited', run, place: null, exit };
    }
    const place = isReady(pod) ? placeOf(pod, 'existing') : null;
    return { sandboxId, state: isFrozen(pod) ? 'paused' : 'running', run, place, exit: null };
  }

  /** As `SandboxDriver.list`. */
  async list(): Promise<SandboxInspection[]> {
    return Promise.all([...this.#known()].map((sandboxId) => this.inspect(sandboxId)));
  }

  /**
   * Removes everything of this host that belongs to no sandbox of the list.
   * @returns the sandboxes that were removed
   */
  async reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<SandboxId[]> {
    const known = new Set(knownSandboxIds);
    const there = new Set([...this.#known(), ...(this.#udp?.sandboxes ?? [])]);
    const unknown = [...there].filter((sandboxId) => !known.has(sandboxId));
    const settled = await Promise.allSettled(unknown.map((sandboxId) => this.remove(sandboxId)));
    for (const [at, result] of settled.entries()) {
      if (result.status === 'fulfilled') continue;
      const fields = { err: result.reason, sandboxId: unknown[at] };
      this.#options.logger.error(fields, 'an unknown sandbox could not be removed');
    }
    // Pods that looked at an image for a process that is gone.
    const looks = this.#watch.pods().filter((pod) => {
      if (sandboxOf(pod) !== null || isOfBuild(pod) || isMountPod(pod)) return false;
      return !this.#ended.has(pod.metadata!.uid!);
    });
    for (const pod of looks) {
      if (!this.#facts.has(pod.spec!.containers[0]!.image!)) await this.#cluster.deletePod(pod.metadata!.name!);
    }
    await this.#builds?.removeAbandoned();
    await this.#mounts?.removeOrphans();
    return unknown;
  }

  /** As `SandboxDriver.onExit`; an end that the cluster has brought about has no exit code. */
  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#onExit = listener;
    this.#reportAll();
  }

  /** Calls back for each sandbox that was ready and whose processes end without a `stop` or `pause`, with the reason. */
  onEnd(listener: (end: SandboxEnd) => unknown): void {
    this.#onEnd = listener;
    this.#reportAll();
  }

  /** As `SandboxDriver.usage`, measured by the nodes' kubelets some seconds ago. */
  async usage(): Promise<SandboxUsage[]> {
    return this.load.usage();
  }

  diskRoom(): DiskRoom {
    return this.load.diskRoom();
  }

  diskCapacityBytes(): number {
    const promised = this.#watch
      .disks()
      .reduce((sum, { spec }) => sum + bytesOf(spec?.resources?.requests?.storage ?? '0'), 0);
    return this.diskRoom().freeBytes + promised;
  }

  /** None: each disk has a size of its own, and one that is full is full for its sandbox alone. */
  async diskUse(): Promise<DiskUse[]> {
    return [];
  }

  /** Ends the processes: not every node has the helper that freezes them, and it takes a moment. */
  halt(sandboxId: SandboxId): Promise<void> {
    return this.endAtOnce(sandboxId);
  }

  /** As `HostDriver.endAtOnce`: their node ends them within a second or two. */
  async endAtOnce(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was ended');
    const pod = this.#watch.pod(sandboxId);
    if (pod) this.#ended.add(pod.metadata!.uid!);
    await this.#cluster.deletePod(sandboxId);
  }

  /** As `SandboxDriver.exposeUdp`; nodes follow some moments later. @throws {DriverError} also when a port is in use */
  async exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void> {
    if (!this.#udp && ports.length > 0) throw noUdpPorts();
    await this.#lock.run(sandboxId, async () => {
      const disk = this.#watch.disk(sandboxId);
      if (!disk) throw absent();
      await this.#udp?.lead(disk, ports);
    });
  }

  /** As `HostDriver.repairLinks`, of Services: links and routes of pods are the cluster's. */
  async repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    const repaired: SandboxId[] = [];
    for (const { sandboxId } of sandboxes) {
      if (this.#udp?.lost(sandboxId) && (await this.#repairUdp(this.#udp, sandboxId))) repaired.push(sandboxId);
    }
    return repaired;
  }

  /** As `HostDriver.withoutAgent`: what a look found that begins with each call, and takes a moment. */
  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    const idle = [...sandboxIds].filter((sandboxId) => !this.#work.isBusyWith(sandboxId));
    const places = idle.flatMap((sandboxId) => {
      const pod = this.#readyPod(sandboxId);
      return pod && !isFreezeWanted(pod) ? [{ sandboxId, address: addressOf(pod)!, port: agentPort }] : [];
    });
    this.#agentProbes.look(places);
    return idle.filter((sandboxId) => this.#agentProbes.isGone(sandboxId) && this.#agentRestarts.isDue(sandboxId));
  }

  async restartAgent(spec: SandboxSpec): Promise<void> {
    const { sandboxId } = spec;
    const isGone = async () => {
      const pod = this.#readyPod(sandboxId);
      return pod !== null && (await refusesConnections(addressOf(pod)!, agentPort));
    };
    await this.#agentRestarts.run(
      spec,
      () =>
        this.#work.run(sandboxId, AbortSignal.timeout(agentRestartTimeoutMs), async (signal) => {
          if (!(await isGone())) return false;
          // The template's command runs once.
          await this.#boot({ ...spec, command: null }, await this.#factsOf(spec, signal), signal);
          return true;
        }),
      async () => !(await isGone()),
    );
  }

  /** There are no warm pods. */
  async dropPooled(): Promise<void> {}

  async sandboxAt(address: string): Promise<SandboxId | null> {
    const pod = this.#watch.pods().find((each) => addressOf(each) === address);
    return pod ? sandboxOf(pod) : null;
  }

  /** Stops watching; sandboxes go on. */
  async close(): Promise<void> {
    await Promise.all([this.fence.stop(), this.load.close(), this.#agentProbes.close()]);
    await this.#watch.close();
  }

  #buildsIn(folder: string): ClusterImageBuilds {
    return new ClusterImageBuilds({
      folder,
      config: this.#options.config,
      cluster: this.#cluster,
      watch: this.#watch,
      options: this.#options,
      podStartSeconds: this.#seconds.podStart,
      podOf: (sandboxId) => this.#readyPod(sandboxId),
      factsOf: (image, signal) => this.#factsOfImage(image, signal),
      alone: (sandboxId, signal, work) => this.#work.run(sandboxId, signal, work),
    });
  }

  async #repairUdp(udp: UdpPorts, sandboxId: SandboxId): Promise<boolean> {
    if (this.#work.isBusyWith(sandboxId)) return false;
    return this.#lock.run(sandboxId, async () => {
      const [ports, disk] = [udp.lost(sandboxId), this.#watch.disk(sandboxId)];
      if (!ports || !disk) return false;
      try {
        await udp.lead(disk, ports);
        return true;
      } catch (error) {
        this.#options.logger.warn({ err: error, sandboxId }, 'the UDP ports of a sandbox could not be restored');
        return false;
      }
    });
  }

  *#counted(): Generator<CountedPod> {
    for (const pod of this.#watch.pods()) {
      if (endOf(pod)) continue;
      const sandboxId = sandboxOf(pod);
      const container = pod.spec!.containers.find(({ name }) => name === sandboxContainer);
      const disk = sandboxId === null ? null : this.#watch.disk(sandboxId);
      yield {
        uid: pod.metadata!.uid!,
        sandboxId,
        node: pod.spec!.nodeName ?? null,
        requestedBytes: bytesOf(container?.resources?.requests?.memory ?? '0'),
        diskBytes: bytesOf(disk?.spec?.resources?.requests?.storage ?? '0'),
        isRunning: isReady(pod) && !isFrozen(pod),
      };
    }
  }

  *#known(): Generator<SandboxId> {
    const seen = new Set<SandboxId>();
    for (const object of [...this.#watch.pods(), ...this.#watch.disks()]) {
      const sandboxId = sandboxOf(object);
      if (!sandboxId || seen.has(sandboxId)) continue;
      seen.add(sandboxId);
      yield sandboxId;
    }
  }

  async #start({ spec, phases, signal }: Work): Promise<SandboxPlace> {
    const { sandboxId } = spec;
    phases.report('deploying');
    const last = this.#watch.pod(sandboxId);
    // The processes there may still run, and write to the disk.
    if (last && endOf(last)?.reason === 'node_lost') throw nodeAway();
    await this.#endPod(sandboxId, signal);
    let leave = () => {};
    try {
      const facts = await this.#factsOf(spec, signal);
      leave = await this.#starts.take(spec.accountId, signal);
      const disk = await this.#cluster.applyDisk(diskOf(spec, facts, this.#options), signal);
      const owner = { name: sandboxId, uid: disk.metadata!.uid! };
      // Before anything of the sandbox runs.
      await this.#cluster.applyPolicy(policyOf(spec, owner, this.#options), signal);
      await this.#udp?.lead(disk, spec.udpPorts, signal);
      const applied = await this.#cluster.applyPod(podOf(spec, facts, this.#options), signal);
      const pod = await this.#whenRunning(sandboxId, signal);
      phases.report('initializing');
      const uid = applied.metadata!.uid!;
      let slots: MountSlot[] | undefined;
      await this.#whileRunning(sandboxId, uid, signal, async (alive) => {
        // A bucket may take its time to answer.
        if (spec.storage) leave();
        // Before anything in the sandbox runs, so that it finds its mounts.
        slots = await this.#applyMounts(spec, pod, alive);
        await this.#boot(spec, facts, alive);
        phases.report('waiting_ready');
        const address = addressOf(pod)!;
        const agent = new AgentClient(address, spec.platformToken);
        await agent.whenReady(sandboxId, this.#seconds.agentStart, alive);
        // The probe of a template may take as long as it likes.
        leave();
        if (spec.readyProbe) await whenProbeSucceeds(spec.readyProbe, { address, agent }, alive);
      });
      await phases.finish();
      signal.throwIfAborted();
      await this.#cluster.annotatePod(sandboxId, uid, { [annotations.phase]: 'ready' });
      await this.#watch.until(sandboxId, () => (this.#readyPod(sandboxId) ? true : undefined), {
        ...this.#inTime(this.#seconds.podEnd, 'The sandbox could not be started'),
        signal,
      });
      return placeOf(pod, 'cold', slots);
    } catch (error) {
      await this.#endPod(sandboxId);
      throw error;
    } finally {
      leave();
    }
  }

  /** @throws {DriverError} with the processes frozen again */
  async #thaw({ spec, phases, signal }: Work, pod: V1Pod): Promise<SandboxPlace> {
    const { sandboxId, run, platformToken } = spec;
    const slots = await this.#applyMounts(spec, pod, signal);
    // From the thaw on an end of the processes belongs to this run.
    const numbered: Record<string, string> = run === null ? {} : { [annotations.run]: `${run}` };
    await this.#freezer.thaw(pod, numbered, signal, async () => {
      const agent = new AgentClient(addressOf(pod)!, platformToken);
      await agent.whenReady(sandboxId, thawSeconds, signal);
      await phases.finish();
    });
    return placeOf(pod, 'thaw', slots);
  }

  /** @returns its mounts; undefined for a sandbox without */
  async #applyMounts(spec: SandboxSpec, pod: V1Pod, signal: AbortSignal): Promise<MountSlot[] | undefined> {
    const { sandboxId, storage } = spec;
    if (!storage || !this.#mounts) return storage && [...storage.slots];
    const seen = () => this.#watch.disk(sandboxId) ?? undefined;
    const inTime = this.#inTime(this.#seconds.podEnd, 'The sandbox could not be started');
    const disk = await this.#watch.until(sandboxId, seen, { ...inTime, signal });
    return this.#mounts.apply({ spec, pod, disk }, storage, signal);
  }

  #slotsOf(spec: SandboxSpec, pod: V1Pod): MountSlot[] | undefined {
    const disk = this.#watch.disk(spec.sandboxId);
    return spec.storage && disk ? this.#mounts?.current(disk, pod, spec.storage.slots) : undefined;
  }

  /** Sends the agent its boot document, which is kept nowhere. */
  async #boot(spec: SandboxSpec, { cwd, user }: ImageFacts, signal: AbortSignal): Promise<void> {
    const { sandboxId, accessToken, env, command, platformToken } = spec;
    const init = { sandboxId, accessToken, env, command, cwd, user };
    const document = Buffer.from(JSON.stringify({ platformToken, init }));
    await this.#cluster.run(sandboxId, sandboxContainer, startAgentWords(document.length), document, signal);
  }

  #whenRunning(name: string, signal: AbortSignal): Promise<V1Pod> {
    const running = () => {
      const pod = this.#watch.pod(name);
      const failure = pod && startFailureOf(pod);
      if (failure) throw failure;
      return pod && addressOf(pod) ? pod : undefined;
    };
    const late = () => {
      const pod = this.#watch.pod(name);
      return pod && isUnschedulable(pod) ? noCapacity() : notStarted('the cluster did not start its pod in time');
    };
    return this.#watch.until(name, running, { seconds: this.#seconds.podStart, late, signal });
  }

  /** Runs `act` unless the pod ends before, whose end is then the error. */
  async #whileRunning(
    sandboxId: SandboxId,
    uid: string,
    signal: AbortSignal,
    act: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const stopped = new AbortController();
    const ended = this.#watch.until(
      sandboxId,
      () => {
        const pod = this.#watch.pod(sandboxId);
        const failure = pod?.metadata?.uid === uid ? startFailureOf(pod) : notStarted('its pod is gone');
        if (failure) throw failure;
        return undefined as true | undefined;
      },
      { seconds: this.#seconds.podStart + this.#seconds.agentStart + 3600, late: absent, signal: stopped.signal },
    );
    const cut = new AbortController();
    ended.catch((error) => cut.abort(error));
    try {
      await act(AbortSignal.any([signal, cut.signal]));
    } catch (error) {
      if (cut.signal.aborted && !signal.aborted) throw cut.signal.reason;
      throw error;
    } finally {
      stopped.abort();
    }
  }

  /** Ends the pod of a sandbox, and waits until its node has ended its processes. */
  async #endPod(name: string, signal?: AbortSignal): Promise<void> {
    const seen = this.#watch.pod(name);
    if (seen) this.#ended.add(seen.metadata!.uid!);
    const uid = await this.#cluster.deletePod(name);
    await this.#mounts?.end(name);
    if (uid === null) return;
    const late = () => notStarted('its last pod is not gone in time');
    const seconds = this.#seconds.podEnd;
    if (this.#watch.pod(name)?.metadata?.uid === uid) {
      const gone = () => (this.#watch.pod(name)?.metadata?.uid === uid ? undefined : true);
      await this.#watch.until(name, gone, { seconds, late, ...(signal && { signal }) });
      return;
    }
    // So new that the watch has not seen it, or so old that it has seen its end.
    for (const endMs = performance.now() + seconds * 1000; await this.#cluster.isThere(name, uid); ) {
      if (performance.now() > endMs) throw late();
      await sleep(askAgainMs, undefined, { signal });
    }
  }

  /** From the disk of the sandbox, or by a pod of its image. */
  async #factsOf(spec: SandboxSpec, signal: AbortSignal): Promise<ImageFacts> {
    const stored = this.#watch.disk(spec.sandboxId)?.metadata?.annotations?.[annotations.image];
    if (stored !== undefined) return readImageFacts(stored);
    return this.#factsOfImage(this.#options.imageOf(spec.image), signal);
  }

  #factsOfImage(image: string, signal: AbortSignal): Promise<ImageFacts> {
    let found = this.#facts.get(image);
    if (!found) {
      found = this.#look(image);
      this.#facts.set(image, found);
      found.catch(() => this.#facts.delete(image));
    }
    return untilAborted(found, signal);
  }

  async #look(image: string): Promise<ImageFacts> {
    const hash = createHash('sha256').update(image).digest('hex').slice(0, 20);
    const name = `look-${this.#options.hostId}-${hash}`.slice(0, 63);
    const leave = await this.#starts.take('images');
    const signal = AbortSignal.timeout(this.#seconds.podStart * 1000);
    try {
      await this.#cluster.applyPod(lookPodOf(name, image, this.#options), signal);
      const said = await this.#watch.until(
        name,
        () => {
          const pod = this.#watch.pod(name);
          const terminated = pod?.status?.containerStatuses?.[0]?.state?.terminated;
          if (terminated?.exitCode === 0) return terminated.message ?? '';
          const failure = pod && startFailureOf(pod);
          if (failure) throw failure;
        },
        this.#inTime(this.#seconds.podStart, "The sandbox's image could not be pulled in time"),
      );
      return readImageFacts(said);
    } finally {
      await this.#endPod(name).finally(leave);
    }
  }

  #existingPlace(spec: SandboxSpec): SandboxPlace | null {
    const pod = this.#readyPod(spec.sandboxId);
    return pod && !isFreezeWanted(pod) && runOf(pod) === (spec.run ?? 0)
      ? placeOf(pod, 'existing', this.#slotsOf(spec, pod))
      : null;
  }

  #readyPod(sandboxId: SandboxId): V1Pod | null {
    const pod = this.#watch.pod(sandboxId);
    return pod && isReady(pod) && addressOf(pod) ? pod : null;
  }

  async #number(pod: V1Pod, { sandboxId, run }: SandboxSpec): Promise<void> {
    if (run === null || runOf(pod) === run) return;
    await this.#cluster.annotatePod(sandboxId, pod.metadata!.uid!, { [annotations.run]: `${run}` });
  }

  #requireDisk(sandboxId: SandboxId): void {
    if (!this.#watch.disk(sandboxId)) throw absent();
  }

  #inTime(seconds: number, message: string) {
    return { seconds, late: () => new DriverError('start_failed', message, { retryable: true }) };
  }

  #reportAll(): void {
    for (const pod of this.#watch.pods()) this.#notice(pod, false);
  }

  /** Reports the end of a ready sandbox once; what this driver ends itself is no news. */
  #notice(pod: V1Pod, isGone: boolean): void {
    const sandboxId = sandboxOf(pod);
    const { uid, name } = pod.metadata!;
    const end =
      endOf(pod) ?? (isGone ? ({ reason: 'deleted', exitCode: null, output: '', message: '' } as const) : null);
    const hasListener = this.#onEnd !== undefined || this.#onExit !== undefined;
    if (sandboxId && end && isReady(pod) && !this.#ended.has(uid!) && hasListener) {
      this.#ended.add(uid!);
      this.#report(pod, { ...end, sandboxId, run: runOf(pod) }, isGone).catch((error) => {
        this.#ended.delete(uid!);
        this.#options.logger.error({ err: error, sandboxId }, 'the end of a sandbox could not be reported');
      });
    }
    if (isGone) this.#ended.delete(uid!);
    if (isGone && sandboxId === null)
      this.#options.logger.debug({ pod: name }, 'a pod that looked at an image is gone');
  }

  async #report(pod: V1Pod, end: SandboxEnd, isGone: boolean): Promise<void> {
    const { sandboxId, reason, message } = end;
    if (!byItself(end)) this.#options.logger.warn({ sandboxId, reason, message }, 'the cluster has ended a sandbox');
    await this.#onEnd?.(end);
    await this.#onExit?.(exitOf(pod, end));
    const { name, uid } = pod.metadata!;
    if (!isGone) await this.#cluster.annotatePod(name!, uid!, { [annotations.phase]: 'ended' }).catch(unlessGone);
  }

  #begin(spec: SandboxSpec, options: CreateOptions, act: (work: Work) => Promise<SandboxPlace>): Promise<SandboxPlace> {
    const phases = new PhaseReports(options.onPhase);
    return this.#work.run(spec.sandboxId, options.signal, async (signal) => {
      if (spec.udpPorts.length > 0 && !this.#udp) throw noUdpPorts();
      requireMountable(spec, { hasMounts: this.#mounts !== null, runtimeClass: this.#options.runtimeClass });
      try {
        return await act({ spec, phases, signal });
      } catch (error) {
        throw startFailure(error, signal);
      }
    });
  }
}

interface Work {
  spec: SandboxSpec;
  phases: PhaseReports;
  signal: AbortSignal;
}

const isReady = (pod: V1Pod) => pod.metadata?.annotations?.[annotations.phase] === 'ready';
const byItself = ({ reason }: PodEnd) => reason === 'exited' || reason === 'out_of_memory';

const placeOf = (pod: V1Pod, from: SandboxPlace['from'], slots?: MountSlot[]): SandboxPlace => ({
  address: addressOf(pod)!,
  agentPort,
  from,
  ...(slots && { slots }),
});

function mountsOf(options: KubernetesDriverOptions, cluster: Cluster, watch: ClusterWatch, podStartSeconds: number) {
  const { mounts, closedRanges = [], podNetwork, config } = options;
  if (!mounts) return null;
  return new PodMounts(cluster, watch, {
    manifests: { ...options, s3fsImage: mounts.s3fsImage },
    outboundRanges: mounts.outboundRanges,
    closedRanges: [...closedRanges, podNetwork],
    ownServices: mounts.ownServices,
    apiServer: config.getCurrentCluster()!.server,
    podStartSeconds,
  });
}

const exitOf = (pod: V1Pod, end: PodEnd): SandboxExit => ({
  sandboxId: sandboxOf(pod)!,
  run: runOf(pod),
  // That of processes which the cluster ends says nothing about them.
  exitCode: byItself(end) ? end.exitCode : null,
  outOfMemory: end.reason === 'out_of_memory',
  commandOutput: end.output,
});

const absent = () => new DriverError('sandbox_absent', 'The sandbox and its disk are gone from this host');
const noUdpPorts = () =>
  new DriverError('not_on_a_cluster', 'The cluster of this sandbox has no UDP ports for sandboxes');
const noCapacity = (cause?: unknown) =>
  new DriverError('no_capacity', 'The cluster has no room for the sandbox now; try again later', { cause });
const nodeAway = () =>
  new DriverError('host_unavailable', 'The machine of this sandbox is away; try again when it is back');
const notStarted = (text: string) =>
  new DriverError('start_failed', 'The sandbox could not be started', { cause: new Error(text), retryable: true });

function startFailure(error: unknown, signal: AbortSignal): DriverError {
  if (signal.aborted) return new DriverError('aborted', 'The start was cancelled', { cause: error });
  if (error instanceof DriverError) return error;
  if (isOverQuota(error)) return noCapacity(error);
  const message =
    error instanceof AgentError ? "The sandbox's agent did not answer" : 'The sandbox could not be started';
  return new DriverError('start_failed', message, { cause: error, retryable: true });
}

function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** A pod that is gone by now needs no note. */
function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
