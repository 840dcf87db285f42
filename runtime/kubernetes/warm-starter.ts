import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxPlace, SandboxSpec } from '../driver.ts';
import { AgentClient } from '../sandbox-agent/agent-client.ts';
import { whenReady } from '../sandbox-agent/ready-probe.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterCapacity } from './cluster-capacity.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { readImageFacts } from './image-facts.ts';
import { buildPolicy } from './manifests.ts';
import { annotations } from './names.ts';
import type { KubernetesDriverOptions } from './options.ts';
import type { PodEnds } from './pod-ends.ts';
import { toSandboxPlace } from './pod-place.ts';
import { findAddress } from './pod-state.ts';
import { whenMarkedReady, whileRunning } from './pod-waits.ts';
import { notStarted } from './start-errors.ts';
import type { StartWork } from './start-work.ts';
import type { WarmClaims } from './warm-claims.ts';
import type { WarmPod } from './warm-pod-maker.ts';
import type { WarmPods } from './warm-pods.ts';

/** A pod on a lost node delays a create by this time. A shorter time would give up good pods of a busy node. */
const connectTimeoutMs = 1000;

interface WarmStarterParts {
  cluster: Cluster;
  watch: ClusterWatch;
  options: KubernetesDriverOptions;
  ends: PodEnds;
  pods: WarmPods;
  claims: WarmClaims;
  load: ClusterCapacity;
  seconds: { podStart: number; podEnd: number; agentStart: number };
}

/** Starts new sandboxes in warm pods. */
export class WarmStarter {
  readonly #parts: WarmStarterParts;

  constructor(parts: WarmStarterParts) {
    this.#parts = parts;
  }

  /**
   * @returns null when no warm pod can be used; a pod that was tried is gone then
   * @throws after the sandbox's pod is gone, or when the pod does not end in time; the sandbox's disk may be left
   */
  async start(work: StartWork): Promise<SandboxPlace | null> {
    const { watch, ends, pods } = this.#parts;
    const { spec, signal } = work;
    if (!mayTake(spec) || watch.findDisk(spec.sandboxId) || watch.findPod(spec.sandboxId)) return null;
    const pod = await this.#claim(work);
    if (!pod) return null;
    const progress = { isNamed: false };
    try {
      const place = await this.#take(work, pod, progress);
      pods.forget(pod);
      return place;
    } catch (error) {
      if (progress.isNamed) {
        await ends.end(pod.name).finally(() => pods.forget(pod));
        throw error;
      }
      // The agent has not confirmed the sandbox. If its reply was lost, the sandbox may already run in this pod.
      // `discard` returns only after the pod is gone, so the next start does not make a second running copy.
      await pods.discard(pod);
      if (signal.aborted) throw error;
      this.#parts.options.logger.warn({ err: error, pod: pod.name }, 'a warm pod could not be taken');
      return null;
    }
  }

  /** Claims a pod whose agent listens. One whose agent does not may be on a lost node, so it is given up. */
  async #claim({ spec, signal }: StartWork): Promise<WarmPod | null> {
    const { watch, pods } = this.#parts;
    for (;;) {
      signal.throwIfAborted();
      const pod = pods.claim(spec);
      if (!pod) return null;
      const seen = watch.pod(pod.name);
      const address = seen && findAddress(seen);
      let isThere = false;
      try {
        if (address) isThere = await new AgentClient(address, pod.token).listens(connectTimeoutMs, signal);
      } finally {
        if (!isThere) pods.giveUp(pod);
      }
      if (isThere) return pod;
    }
  }

  async #take(
    { spec, onPhase, signal }: StartWork,
    pod: WarmPod,
    progress: { isNamed: boolean },
  ): Promise<SandboxPlace> {
    const { cluster, watch, options, claims, load, seconds } = this.#parts;
    const { sandboxId } = spec;
    const { name, uid, disk } = pod;
    onPhase('deploying');
    const run = spec.run ?? 0;
    const isOurs = await claims.takePod(pod, sandboxId, { run, before: load.findFigures(uid) }, signal);
    if (!isOurs) throw notStarted(`the pod ${name} is gone, or another sandbox has it`);
    const [isDiskOurs] = await Promise.all([
      claims.takeDisk(disk, sandboxId, signal),
      // The policy must exist before the sandbox runs.
      cluster.applyPolicy(buildPolicy(spec, disk, options), signal),
    ]);
    if (!isDiskOurs) throw notStarted(`the disk ${name} is gone, or another sandbox has it`);
    onPhase('initializing');
    const during = { name, uid, seconds: seconds.podStart + seconds.agentStart + 3600, signal };
    await whileRunning(watch, during, async (alive) => {
      const seen = watch.pod(name)!;
      const address = findAddress(seen);
      if (!address) throw notStarted('its pod has ended');
      const agent = new AgentClient(address, spec.platformToken);
      await new AgentClient(address, pod.token).initialise(this.#buildInit(spec, seen), alive);
      progress.isNamed = true;
      onPhase('waiting_ready');
      await agent.whenReady(sandboxId, seconds.agentStart, alive);
      await whenReady(spec, { address, agent }, alive);
    });
    signal.throwIfAborted();
    await cluster.annotatePod(name, uid, { [annotations.phase]: 'ready' });
    const ready = await whenMarkedReady(watch, sandboxId, { seconds: seconds.podEnd, signal });
    return toSandboxPlace(ready, 'pool');
  }

  #buildInit({ sandboxId, accessToken, env, command, platformToken }: SandboxSpec, pod: V1Pod) {
    const facts = this.#parts.watch.disk(pod.metadata!.name!)?.metadata?.annotations?.[annotations.image];
    if (facts === undefined) throw notStarted('its disk is gone');
    const { cwd, user } = readImageFacts(facts);
    const own = { HOSTNAME: sandboxId, ...env };
    return { sandboxId, accessToken, env: own, command, cwd, user, platformToken, hostname: sandboxId };
  }
}

/** Whether a warm pod may run the sandbox. Mounts and UDP ports must be set up before the pod's sandbox runs. */
const mayTake = ({ storage, udpPorts }: SandboxSpec) => !storage && udpPorts.length === 0;
