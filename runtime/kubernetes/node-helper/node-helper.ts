import type { V1Pod } from '@kubernetes/client-node';
import { annotations, fieldManager, isFreezeWanted, labels, sandboxContainer } from '../names.ts';
import { type HelperOptions, NodePods } from '../node-pods.ts';

const selector = `${labels.managedBy}=${fieldManager},${labels.sandbox}`;
/** How long one try to freeze or thaw takes at most. */
const stepMs = 5000;
/** Something else may have thawed a container: a runtime that changes its limits does. */
const checkMs = 5000;

/**
 * Freezes and thaws the containers of one node's sandboxes as the annotation `frozen` of their pods asks, and writes to
 * `frozen-now` what the kernel has done. It keeps nothing: each time it starts it compares all of them anew, so it may be
 * killed at any point. It has no port. Everyone who may write annotations of pods in the namespace may freeze these pods;
 * sandboxes have no token for that.
 */
export class NodeHelper {
  readonly #options: HelperOptions;
  readonly #pods: NodePods;
  /** What was done last with a pod, by uid: events that change none of it cost nothing. */
  readonly #done = new Map<string, { containerId: string; group: string; frozen: boolean }>();
  #checking: NodeJS.Timeout | undefined;

  constructor(options: HelperOptions) {
    this.#options = options;
    this.#pods = new NodePods(options, {
      selector,
      settle: (pod) => this.#step(pod),
      failed: async ({ metadata }, error) => {
        const fields = { err: error, pod: metadata!.name };
        options.logger.error(fields, 'a sandbox could not be frozen or thawed; it is tried again');
        return false;
      },
      forget: (uid) => this.#done.delete(uid),
    });
  }

  /** Begins to watch, and goes on trying where the API server is away. */
  async open(): Promise<void> {
    await this.#pods.open();
    this.#checking = setInterval(() => this.#check(), checkMs);
  }

  /** Stops watching. Frozen containers stay frozen. */
  async close(): Promise<void> {
    clearInterval(this.#checking);
    await this.#pods.close();
  }

  #check(): void {
    for (const pod of this.#pods.list()) {
      const done = this.#done.get(pod.metadata!.uid!);
      if (!done?.frozen || this.#options.groups.isFrozen(done.group)) continue;
      this.#done.delete(pod.metadata!.uid!);
      this.#pods.settle(pod);
    }
  }

  /** @returns false: not as it should be yet */
  async #step(pod: V1Pod): Promise<boolean> {
    const { metadata } = pod;
    const uid = metadata!.uid!;
    const containerId = runningContainerOf(pod);
    if (!isOurs(pod, this.#options) || containerId === null) return true;
    // What is being deleted has to run to be ended.
    const frozen = isFreezeWanted(pod) && !metadata!.deletionTimestamp;
    const done = this.#done.get(uid);
    if (done?.containerId !== containerId || done.frozen !== frozen) {
      const { groups, logger } = this.#options;
      const group = groups.find(uid, containerId);
      // It has ended, and the API server does not know yet.
      if (group === null) return true;
      const state = frozen ? 'frozen' : 'thawed';
      if (!(await groups.set(group, state, stepMs, this.#pods.closing))) {
        logger.warn({ pod: metadata!.name, state }, 'the kernel has not frozen or thawed a sandbox in time');
        return false;
      }
      this.#done.set(uid, { containerId, group, frozen });
    }
    if (metadata!.annotations?.[annotations.frozenNow] !== `${frozen}`) {
      await this.#pods.annotate(pod, { [annotations.frozenNow]: `${frozen}` });
    }
    return true;
  }
}

/** The API server was asked for these alone; a container of anything else is never touched. */
function isOurs({ metadata, spec }: V1Pod, { namespace, nodeName }: HelperOptions): boolean {
  return (
    metadata?.namespace === namespace &&
    metadata.labels?.[labels.managedBy] === fieldManager &&
    metadata.labels[labels.sandbox] !== undefined &&
    spec?.nodeName === nodeName
  );
}

/** Null: the sandbox's first process does not run. */
function runningContainerOf({ status }: V1Pod): string | null {
  const container = status?.containerStatuses?.find(({ name }) => name === sandboxContainer);
  if (!container?.state?.running) return null;
  return container.containerID?.split('://')[1] ?? null;
}
