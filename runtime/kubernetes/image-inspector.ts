import { createHash } from 'node:crypto';
import { DriverError, type SandboxSpec } from '../driver.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { EndReports } from './end-reports.ts';
import { isOfBuild } from './image-builds.ts';
import { type ImageFacts, readImageFacts } from './image-facts.ts';
import { buildClosedPolicy, inspectionPod } from './manifests.ts';
import { isMountPod } from './mounts/names.ts';
import { annotations, isFreeWarm, readSandboxId } from './names.ts';
import type { KubernetesDriverOptions } from './options.ts';
import type { PodEnds } from './pod-ends.ts';
import type { PodStarts } from './pod-starts.ts';
import { findStartFailure } from './pod-state.ts';

interface ImageInspectorParts {
  cluster: Cluster;
  watch: ClusterWatch;
  starts: PodStarts;
  ends: PodEnds;
  reports: EndReports;
  options: KubernetesDriverOptions;
  podStartSeconds: number;
}

/** Finds the facts about images: on the disk of a sandbox that was made of the image, or with a pod of the image. */
export class ImageInspector {
  readonly #parts: ImageInspectorParts;
  /** The facts by image. A failed inspection is not kept. */
  readonly #facts = new Map<string, Promise<ImageFacts>>();

  constructor(parts: ImageInspectorParts) {
    this.#parts = parts;
  }

  /** The facts about a sandbox's image, from the sandbox's disk or from a pod of the image. @throws {DriverError} */
  async readFacts(spec: SandboxSpec, signal: AbortSignal): Promise<ImageFacts> {
    const { watch, options } = this.#parts;
    const stored = watch.findDisk(spec.sandboxId)?.metadata?.annotations?.[annotations.image];
    if (stored !== undefined) return readImageFacts(stored);
    return this.factsOfImage(options.resolveImage(spec.image), signal);
  }

  /**
   * @param image the reference by which nodes pull the image
   * @param signal ends this wait; the inspection continues for other callers
   * @throws {DriverError}
   */
  factsOfImage(image: string, signal: AbortSignal): Promise<ImageFacts> {
    let found = this.#facts.get(image);
    if (!found) {
      found = this.#inspect(image);
      this.#facts.set(image, found);
      found.catch(() => this.#facts.delete(image));
    }
    return untilAborted(found, signal);
  }

  /** Ends the pods with which an earlier process inspected images. */
  async removeAbandoned(): Promise<void> {
    const { watch, reports, cluster } = this.#parts;
    const abandoned = watch.pods().filter((pod) => {
      if (readSandboxId(pod) !== null || isOfBuild(pod) || isMountPod(pod) || isFreeWarm(pod)) return false;
      return !reports.isExpected(pod);
    });
    for (const pod of abandoned) {
      if (!this.#facts.has(pod.spec!.containers[0]!.image!)) await cluster.deletePod(pod.metadata!.name!);
    }
  }

  async #inspect(image: string): Promise<ImageFacts> {
    const { cluster, watch, starts, ends, options, podStartSeconds: seconds } = this.#parts;
    const hash = createHash('sha256').update(image).digest('hex').slice(0, 20);
    const name = `look-${options.hostId}-${hash}`.slice(0, 63);
    const release = await starts.take('images');
    const signal = AbortSignal.timeout(seconds * 1000);
    try {
      // The driver made this policy when it was opened, but it may have been deleted since.
      await cluster.applyPolicy(buildClosedPolicy(options), signal);
      await cluster.applyPod(inspectionPod(name, image, options), signal);
      const said = () => {
        const pod = watch.pod(name);
        const terminated = pod?.status?.containerStatuses?.[0]?.state?.terminated;
        if (terminated?.exitCode === 0) return terminated.message ?? '';
        const failure = pod && findStartFailure(pod);
        if (failure) throw failure;
      };
      return readImageFacts(await watch.until(name, said, { seconds, late: notPulled }));
    } finally {
      await ends.end(name).finally(release);
    }
  }
}

const notPulled = () =>
  new DriverError('start_failed', "The sandbox's image could not be pulled in time", { retryable: true });

function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
