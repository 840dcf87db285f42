import { randomBytes } from 'node:crypto';
import type { KubernetesObject, V1Pod } from '@kubernetes/client-node';
import { AgentClient } from '../sandbox-agent/agent-client.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { ImageInspector } from './image-inspector.ts';
import { type OwnerDisk, startAgentWords } from './manifests.ts';
import { isFreeWarm, sandboxContainer } from './names.ts';
import type { KubernetesDriverOptions, WarmShape } from './options.ts';
import type { PodEnds } from './pod-ends.ts';
import type { PodStarts } from './pod-starts.ts';
import { findAddress } from './pod-state.ts';
import { whenRunning } from './pod-waits.ts';
import { noCapacity, notStarted } from './start-errors.ts';
import { buildWarmDisk, buildWarmPod, buildWarmPolicy } from './warm-manifests.ts';

/** A pod without a sandbox. Its agent waits for one. */
export interface WarmPod {
  /** The name of the pod and of its disk. */
  name: string;
  uid: string;
  disk: OwnerDisk;
  shape: WarmShape;
  /** The agent accepts this token until it has a sandbox. Only this process knows the token. */
  token: string;
}

export interface MakerParts {
  cluster: Cluster;
  watch: ClusterWatch;
  options: KubernetesDriverOptions;
  images: ImageInspector;
  starts: PodStarts;
  ends: PodEnds;
  seconds: { podStart: number; podEnd: number; agentStart: number };
}

/** Makes and removes warm pods. */
export class WarmPodMaker {
  readonly #parts: MakerParts;
  /** The names of the warm pods that this process makes, keeps or removes. */
  readonly #names = new Set<string>();

  constructor(parts: MakerParts) {
    this.#parts = parts;
  }

  /** Makes a warm pod. @throws after the pod and its disk are removed; after an abort, only their removal has begun */
  async make(shape: WarmShape, signal: AbortSignal): Promise<WarmPod> {
    const { cluster, watch, options, images, starts, seconds } = this.#parts;
    const name = `warm-${randomBytes(8).toString('hex')}`;
    this.#names.add(name);
    try {
      const facts = await images.factsOfImage(options.resolveImage(shape.image), signal);
      const release = await starts.take('warm', signal);
      try {
        // The policy must exist before the pod runs.
        await cluster.applyPolicy(buildWarmPolicy(options), signal);
        const disk = await cluster.applyDisk(buildWarmDisk(name, shape, facts, options), signal);
        const applied = await cluster.applyPod(buildWarmPod(name, shape, facts, options), signal);
        const onShortage = () => {
          throw noCapacity();
        };
        const pod = await whenRunning(watch, name, { seconds: seconds.podStart, signal, onShortage });
        const token = randomBytes(32).toString('base64url');
        const document = Buffer.from(JSON.stringify({ platformToken: token }));
        await cluster.run(name, sandboxContainer, startAgentWords(document.length), document, signal);
        await new AgentClient(findAddress(pod)!, token).whenWaiting(seconds.agentStart, signal);
        const owner = { name, uid: disk.metadata!.uid! };
        return { name, uid: applied.metadata!.uid!, disk: owner, shape, token };
      } finally {
        release();
      }
    } catch (error) {
      await (signal.aborted ? this.drop(name) : this.discard(name));
      throw error;
    }
  }

  /** The pod as the watch has it. Null: no sandbox can take it now. */
  seen({ name, uid }: WarmPod): V1Pod | null {
    const pod = this.#parts.watch.pod(name);
    return pod?.metadata?.uid === uid && isFreeWarm(pod) && findAddress(pod) ? pod : null;
  }

  /** Forgets a pod that now belongs to a sandbox. */
  forget(name: string): void {
    this.#names.delete(name);
  }

  /**
   * Ends a pod and waits until the pod and its disk are gone.
   * @throws when this takes too long; `removeAbandoned` removes a pod later if no sandbox has taken it
   */
  async discard(name: string): Promise<void> {
    const { cluster, watch, ends, seconds } = this.#parts;
    try {
      await ends.end(name);
      await cluster.deleteDisk(name);
      const gone = () => (watch.disk(name) ? undefined : true);
      const late = () => notStarted('the disk of a warm pod is not gone in time');
      await watch.until(name, gone, { seconds: seconds.podEnd, late });
    } finally {
      this.#names.delete(name);
    }
  }

  /** Starts to remove a pod and its disk without waiting for their end. */
  async drop(name: string): Promise<void> {
    await this.#parts.ends.begin(name);
    await this.#parts.cluster.deleteDisk(name);
    this.#names.delete(name);
  }

  /** Starts to remove the warm pods and disks without a sandbox that this process does not know. */
  async removeAbandoned(): Promise<void> {
    const { watch, cluster } = this.#parts;
    const isAbandoned = (object: KubernetesObject) => isFreeWarm(object) && !this.#names.has(object.metadata!.name!);
    // Another process may take one of them at this moment. It has then changed and is not deleted.
    for (const pod of watch.pods().filter(isAbandoned)) await cluster.deleteUnchangedPod(pod);
    for (const disk of watch.disks().filter(isAbandoned)) await cluster.deleteUnchangedDisk(disk);
  }
}
