import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxPlace, SandboxSpec } from '../driver.ts';
import { AgentClient } from '../sandbox-agent/agent-client.ts';
import { whenReady } from '../sandbox-agent/ready-probe.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterCapacity } from './cluster-capacity.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { ImageFacts } from './image-facts.ts';
import type { ImageInspector } from './image-inspector.ts';
import { buildDisk, buildPod, buildPolicy, startAgentWords } from './manifests.ts';
import type { PodMounts } from './mounts/pod-mounts.ts';
import { annotations, sandboxContainer } from './names.ts';
import type { KubernetesDriverOptions } from './options.ts';
import type { PodEnds } from './pod-ends.ts';
import type { PodFreezer } from './pod-freezer.ts';
import { isReady, toSandboxPlace } from './pod-place.ts';
import type { PodStarts } from './pod-starts.ts';
import { findAddress, findPodEnd } from './pod-state.ts';
import { notInTime, whenMarkedReady, whenRunning, whileRunning } from './pod-waits.ts';
import { nodeAway, noNodeFor } from './start-errors.ts';
import type { StartWork } from './start-work.ts';
import type { UdpPorts } from './udp-ports.ts';
import type { WarmPodEviction } from './warm-pod-eviction.ts';
import type { WarmStarter } from './warm-starter.ts';

/** How long the agent may take to answer after a thaw. */
const thawSeconds = 5;

interface StarterParts {
  cluster: Cluster;
  watch: ClusterWatch;
  capacity: ClusterCapacity;
  options: KubernetesDriverOptions;
  images: ImageInspector;
  starts: PodStarts;
  ends: PodEnds;
  freezer: PodFreezer;
  /** Null: sandboxes have no UDP ports. */
  udp: UdpPorts | null;
  /** Null: sandboxes have no mounts of object storage. */
  mounts: PodMounts | null;
  /** Null: there are no warm pods. */
  warm: { starter: WarmStarter; eviction: WarmPodEviction } | null;
  seconds: { podStart: number; podEnd: number; agentStart: number };
}

/** Starts sandboxes until they are ready: in a warm pod, from an image or on their disk. It also thaws frozen ones. */
export class SandboxStarter {
  readonly #parts: StarterParts;

  constructor(parts: StarterParts) {
    this.#parts = parts;
  }

  /**
   * Starts a sandbox on its disk. The disk is made if it is missing.
   * @throws when the sandbox is not ready in time or cannot start; its processes have then ended
   */
  async start(work: StartWork): Promise<SandboxPlace> {
    return (await this.#parts.warm?.starter.start(work)) ?? this.#startCold(work);
  }

  async #startCold({ spec, onPhase, signal }: StartWork): Promise<SandboxPlace> {
    const { cluster, watch, capacity, options, images, starts, ends, udp, warm, seconds } = this.#parts;
    const { sandboxId } = spec;
    onPhase('deploying');
    const last = watch.findPod(sandboxId);
    // The processes on the lost node may still run and write to the disk.
    if (last && (findPodEnd(last)?.reason === 'node_lost' || ends.isStuck(last))) throw nodeAway();
    if (!capacity.hasNodeFor(spec.memoryMb)) throw noNodeFor(spec.memoryMb);
    await ends.endSandbox(sandboxId, signal);
    const withEviction = <Result>(act: () => Promise<Result>) => (warm ? warm.eviction.within(act, signal) : act());
    const over = new AbortController();
    let release = () => {};
    try {
      const facts = await images.readFacts(spec, signal);
      release = await starts.take(spec.accountId, signal);
      const diskName = watch.findDisk(sandboxId)?.metadata?.name ?? sandboxId;
      const disk = await withEviction(() => cluster.applyDisk(buildDisk(spec, facts, options, diskName), signal));
      const owner = { name: diskName, uid: disk.metadata!.uid! };
      // The policy must exist before the sandbox runs.
      await cluster.applyPolicy(buildPolicy(spec, owner, options), signal);
      await udp?.lead(disk, spec.udpPorts, signal);
      const applied = await withEviction(() => cluster.applyPod(buildPod(spec, facts, options, diskName), signal));
      const onShortage = warm?.eviction.forPod(sandboxId, AbortSignal.any([signal, over.signal]));
      const pod = await whenRunning(watch, sandboxId, { seconds: seconds.podStart, signal, onShortage });
      onPhase('initializing');
      const uid = applied.metadata!.uid!;
      let slots: MountSlot[] | undefined;
      const during = { name: sandboxId, uid, seconds: seconds.podStart + seconds.agentStart + 3600, signal };
      await whileRunning(watch, during, async (alive) => {
        // A bucket may answer slowly, so other starts do not wait for it.
        if (spec.storage) release();
        // The mounts must exist before the first program of the sandbox runs.
        slots = await this.#applyMounts(spec, pod, alive);
        await this.boot(pod, spec, facts, alive);
        onPhase('waiting_ready');
        const address = findAddress(pod)!;
        const agent = new AgentClient(address, spec.platformToken);
        await agent.whenReady(sandboxId, seconds.agentStart, alive);
        // The ready probe of a template may take long, so other starts do not wait for it.
        release();
        await whenReady(spec, { address, agent }, alive);
      });
      signal.throwIfAborted();
      await cluster.annotatePod(sandboxId, uid, { [annotations.phase]: 'ready' });
      await whenMarkedReady(watch, sandboxId, { seconds: seconds.podEnd, signal });
      return toSandboxPlace(pod, 'cold', slots);
    } catch (error) {
      await ends.endSandbox(sandboxId);
      throw error;
    } finally {
      over.abort();
      release();
    }
  }

  /** Thaws a sandbox whose memory was kept. @throws {DriverError} after the processes are frozen again */
  async thaw({ spec, signal }: StartWork, pod: V1Pod): Promise<SandboxPlace> {
    const { sandboxId, run, platformToken } = spec;
    const slots = await this.#applyMounts(spec, pod, signal);
    // The thaw writes the new run number too, so that an end after the thaw belongs to this run.
    const numbered: Record<string, string> = run === null ? {} : { [annotations.run]: `${run}` };
    await this.#parts.freezer.thaw(pod, numbered, signal, async () => {
      const agent = new AgentClient(findAddress(pod)!, platformToken);
      await agent.whenReady(sandboxId, thawSeconds, signal);
    });
    return toSandboxPlace(pod, 'thaw', slots);
  }

  /** Starts the agent and sends it the boot document, which is stored nowhere. */
  async boot(pod: V1Pod, spec: SandboxSpec, { cwd, user }: ImageFacts, signal: AbortSignal): Promise<void> {
    const { sandboxId, accessToken, env, command, platformToken } = spec;
    // The environment of a warm pod has another `HOSTNAME`.
    const own = { HOSTNAME: sandboxId, ...env };
    const init = { sandboxId, accessToken, env: own, command, cwd, user };
    const document = Buffer.from(JSON.stringify({ platformToken, init }));
    const name = pod.metadata!.name!;
    await this.#parts.cluster.run(name, sandboxContainer, startAgentWords(document.length), document, signal);
  }

  /** The pod of a ready sandbox that runs or is frozen. Null: there is no such pod. */
  readyPod(sandboxId: SandboxId): V1Pod | null {
    const pod = this.#parts.watch.findPod(sandboxId);
    return pod && isReady(pod) && findAddress(pod) ? pod : null;
  }

  /** The mounts that a pod has now. Undefined: the sandbox has no mounts. */
  findSlots(spec: SandboxSpec, pod: V1Pod): MountSlot[] | undefined {
    const disk = this.#parts.watch.findDisk(spec.sandboxId);
    return spec.storage && disk ? this.#parts.mounts?.current(disk, pod, spec.storage.slots) : undefined;
  }

  /** @returns the mounts of the sandbox; undefined when it has none */
  async #applyMounts(spec: SandboxSpec, pod: V1Pod, signal: AbortSignal): Promise<MountSlot[] | undefined> {
    const { watch, mounts } = this.#parts;
    const { sandboxId, storage } = spec;
    if (!storage || !mounts) return storage && [...storage.slots];
    const seen = () => watch.findDisk(sandboxId) ?? undefined;
    const of = { seconds: this.#parts.seconds.podEnd, late: notInTime, signal };
    const disk = await watch.until(sandboxId, seen, of);
    return mounts.apply({ spec, pod, disk }, storage, signal);
  }
}
