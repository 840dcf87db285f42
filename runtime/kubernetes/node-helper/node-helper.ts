import type { V1Pod } from '@kubernetes/client-node';
import { processLimit } from '../../process-limit.ts';
import { annotations, fieldManager, isFreezeWanted, labels, sandboxContainer } from '../names.ts';
import { type HelperOptions, NodePods } from '../node-pods.ts';

const selector = `${labels.managedBy}=${fieldManager},${labels.sandbox}`;
/** The time limit of one attempt to freeze or thaw. */
const stepMs = 5000;
/**
 * Another program may thaw a frozen container, so all are checked at this interval. A runtime does so to change limits.
 */
const checkMs = 5000;

/** `group` is null for a container whose processes run outside of its group, so that it is never frozen. */
type Done = { containerId: string } & ({ group: string; frozen: boolean } | { group: null; frozen: false });

/**
 * Freezes and thaws the containers of one node's sandboxes. The annotation `frozen` of a pod is the request, and the
 * helper writes the state of the kernel to `frozen-now`. It stores no state and compares all pods when it starts, so it
 * may be killed at any time. It has no port. A client that may write annotations of pods in the namespace can freeze
 * these pods. Sandboxes have no token for this.
 */
export class NodeHelper {
  readonly #options: HelperOptions;
  readonly #pods: NodePods;
  /** The last action for each pod, by uid. An event that asks for the same state needs no further action. */
  readonly #done = new Map<string, Done>();
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

  /** Starts the watch. It keeps trying while the API server is not reachable. */
  async open(): Promise<void> {
    await this.#pods.open();
    this.#checking = setInterval(() => this.#check(), checkMs);
  }

  /** Stops the watch. Frozen containers stay frozen. */
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

  /** @returns whether the pod has the requested state */
  async #step(pod: V1Pod): Promise<boolean> {
    const { metadata } = pod;
    const uid = metadata!.uid!;
    const containerId = findRunningContainer(pod);
    if (!isOurs(pod, this.#options) || containerId === null) return true;
    // A pod that is being deleted is thawed, because frozen processes cannot end.
    const frozen = isFreezeWanted(pod) && !metadata!.deletionTimestamp;
    const done = this.#done.get(uid);
    const isNew = done?.containerId !== containerId;
    if (!isNew && done.group === null) return true;
    if (isNew || done.frozen !== frozen) {
      const { groups, logger } = this.#options;
      const group = groups.find(uid, containerId);
      // The container has ended, but the API server does not know it yet.
      if (group === null) return true;
      if (isNew && !groups.hasProcesses(group)) {
        // The pod gets no mark, so that a pause keeps only the disk.
        logger.warn({ pod: metadata!.name }, 'a sandbox runs outside of its control group and cannot be frozen');
        this.#done.set(uid, { containerId, group: null, frozen: false });
        return true;
      }
      // Kubernetes has no limit of processes for a pod, only one of the kubelet for all pods of its node.
      if (isNew && !groups.limitProcesses(group, processLimit)) {
        logger.warn({ pod: metadata!.name }, 'the processes of a sandbox could not be limited');
      }
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

/** Checks again what the watch already selects, so that no container of another pod is ever frozen. */
function isOurs({ metadata, spec }: V1Pod, { namespace, nodeName }: HelperOptions): boolean {
  return (
    metadata?.namespace === namespace &&
    metadata.labels?.[labels.managedBy] === fieldManager &&
    metadata.labels[labels.sandbox] !== undefined &&
    spec?.nodeName === nodeName
  );
}

/** The id of the sandbox's container. Null: its first process does not run. */
function findRunningContainer({ status }: V1Pod): string | null {
  const container = status?.containerStatuses?.find(({ name }) => name === sandboxContainer);
  if (!container?.state?.running) return null;
  return container.containerID?.split('://')[1] ?? null;
}
