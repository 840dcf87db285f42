import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxInspection, SandboxSpec } from '../driver.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { exitOf, isByItself } from './end-reports.ts';
import { isFrozen, runOf, sandboxOf } from './names.ts';
import { isReady, placeOf } from './pod-place.ts';
import { addressOf, endOf } from './pod-state.ts';

/** Tells the state of sandboxes from the watch, without requests to the cluster. */
export class SandboxPods {
  readonly #watch: ClusterWatch;

  constructor(watch: ClusterWatch) {
    this.#watch = watch;
  }

  /** As `SandboxDriver.inspect`. */
  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const pod = this.#watch.podOf(sandboxId);
    const disk = this.#watch.diskOf(sandboxId);
    if (!pod) return { sandboxId, state: disk ? 'exited' : 'absent', run: null, place: null, exit: null };
    const run = runOf(pod);
    const end = endOf(pod);
    if (end) {
      const exit = isByItself(end) && end.exitCode !== null ? exitOf(pod, end) : null;
      return { sandboxId, state: 'exited', run, place: null, exit };
    }
    const place = isReady(pod) ? placeOf(pod, 'existing') : null;
    return { sandboxId, state: isFrozen(pod) ? 'paused' : 'running', run, place, exit: null };
  }

  /** As `SandboxDriver.list`. */
  async list(): Promise<SandboxInspection[]> {
    return Promise.all([...this.known()].map((sandboxId) => this.inspect(sandboxId)));
  }

  /** As `HostDriver.sandboxAt`. */
  async sandboxAt(address: string): Promise<SandboxId | null> {
    const pod = this.#watch.pods().find((each) => addressOf(each) === address);
    return pod ? sandboxOf(pod) : null;
  }

  /** The sandboxes that have a pod or a disk. */
  *known(): Generator<SandboxId> {
    const seen = new Set<SandboxId>();
    for (const object of [...this.#watch.pods(), ...this.#watch.disks()]) {
      const sandboxId = sandboxOf(object);
      if (!sandboxId || seen.has(sandboxId)) continue;
      seen.add(sandboxId);
      yield sandboxId;
    }
  }
}

/** A start that is repeated after a crash has the same run number. */
export const isOfRun = (pod: V1Pod, spec: SandboxSpec) => runOf(pod) === (spec.run ?? 0);
