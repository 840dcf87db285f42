import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxInspection, SandboxSpec } from '../driver.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { isByItself, toSandboxExit } from './end-reports.ts';
import { isFrozen, readRun, readSandboxId } from './names.ts';
import { isReady, toSandboxPlace } from './pod-place.ts';
import { findAddress, findPodEnd } from './pod-state.ts';

/** Tells the state of sandboxes from the watch, without requests to the cluster. */
export class SandboxPods {
  readonly #watch: ClusterWatch;

  constructor(watch: ClusterWatch) {
    this.#watch = watch;
  }

  /** As `SandboxDriver.inspect`. */
  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const pod = this.#watch.findPod(sandboxId);
    const disk = this.#watch.findDisk(sandboxId);
    if (!pod) return { sandboxId, state: disk ? 'exited' : 'absent', run: null, place: null, exit: null };
    const run = readRun(pod);
    const end = findPodEnd(pod);
    if (end) {
      const exit = isByItself(end) && end.exitCode !== null ? toSandboxExit(pod, end) : null;
      return { sandboxId, state: 'exited', run, place: null, exit };
    }
    const place = isReady(pod) ? toSandboxPlace(pod, 'existing') : null;
    return { sandboxId, state: isFrozen(pod) ? 'paused' : 'running', run, place, exit: null };
  }

  /** As `SandboxDriver.list`. */
  async list(): Promise<SandboxInspection[]> {
    return Promise.all([...this.known()].map((sandboxId) => this.inspect(sandboxId)));
  }

  /** As `HostDriver.sandboxAt`. */
  async sandboxAt(address: string): Promise<SandboxId | null> {
    const pod = this.#watch.pods().find((each) => findAddress(each) === address);
    return pod ? readSandboxId(pod) : null;
  }

  /** The sandboxes that have a pod or a disk. */
  *known(): Generator<SandboxId> {
    const seen = new Set<SandboxId>();
    for (const object of [...this.#watch.pods(), ...this.#watch.disks()]) {
      const sandboxId = readSandboxId(object);
      if (!sandboxId || seen.has(sandboxId)) continue;
      seen.add(sandboxId);
      yield sandboxId;
    }
  }
}

/** A start that is repeated after a crash has the same run number. */
export const isOfRun = (pod: V1Pod, spec: SandboxSpec) => readRun(pod) === (spec.run ?? 0);
