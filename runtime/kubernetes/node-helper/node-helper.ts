import { setTimeout as sleep } from 'node:timers/promises';
import {
  CoreV1Api,
  type KubeConfig,
  type ListWatch,
  PatchStrategy,
  setHeaderOptions,
  type V1Pod,
} from '@kubernetes/client-node';
import type { DriverLogger } from '../../driver-logger.ts';
import { KeyedLock } from '../../process/keyed-lock.ts';
import { isGone } from '../api-errors.ts';
import { againAfterMs, listWatch } from '../list-watch.ts';
import { annotations, fieldManager, isFreezeWanted, labels, sandboxContainer } from '../names.ts';
import type { NodeGroups } from './node-groups.ts';

const mergeOptions = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
const selector = `${labels.managedBy}=${fieldManager},${labels.sandbox}`;
/** How long one try to freeze or thaw takes at most. */
const stepMs = 5000;
/** Something else may have thawed a container: a runtime that changes its limits does. */
const checkMs = 5000;

export interface NodeHelperOptions {
  config: KubeConfig;
  /** Only pods of this namespace are sandboxes. */
  namespace: string;
  nodeName: string;
  groups: NodeGroups;
  logger: DriverLogger;
}

/**
 * Freezes and thaws the containers of one node's sandboxes as the annotation `frozen` of their pods asks, and writes to
 * `frozen-now` what the kernel has done. It keeps nothing: each time it starts it compares all of them anew, so it may be
 * killed at any point. It has no port. Everyone who may write annotations of pods in the namespace may freeze these pods;
 * sandboxes have no token for that.
 */
export class NodeHelper {
  readonly #options: NodeHelperOptions;
  readonly #core: CoreV1Api;
  readonly #pods: ListWatch<V1Pod>;
  readonly #lock = new KeyedLock();
  readonly #closing = new AbortController();
  /** What was done last with a pod, by uid: events that change none of it cost nothing. */
  readonly #done = new Map<string, { containerId: string; group: string; frozen: boolean }>();
  #checking: NodeJS.Timeout | undefined;

  constructor(options: NodeHelperOptions) {
    const { config, namespace, nodeName } = options;
    this.#options = options;
    this.#core = config.makeApiClient(CoreV1Api);
    const fieldSelector = `spec.nodeName=${nodeName}`;
    const list = () => this.#core.listNamespacedPod({ namespace, labelSelector: selector, fieldSelector });
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const isClosed = () => this.#closing.signal.aborted;
    this.#pods = listWatch({ config, path, list, labelSelector: selector, fieldSelector, isClosed });
  }

  /** Begins to watch, and goes on trying where the API server is away. */
  async open(): Promise<void> {
    this.#pods.on('add', (pod) => this.#settle(pod));
    this.#pods.on('update', (pod) => this.#settle(pod));
    this.#pods.on('delete', (pod) => {
      this.#done.delete(pod.metadata!.uid!);
    });
    this.#pods.on('error', (error) => {
      if (this.#closing.signal.aborted) return;
      this.#options.logger.warn({ err: error }, 'the watch of the pods ended; it begins again');
      void this.#startAgain();
    });
    await this.#pods.start();
    this.#checking = setInterval(() => this.#check(), checkMs);
  }

  /** Stops watching. Frozen containers stay frozen. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#checking);
    await this.#pods.stop();
  }

  #check(): void {
    for (const pod of this.#pods.list(this.#options.namespace)) {
      const done = this.#done.get(pod.metadata!.uid!);
      if (!done?.frozen || this.#options.groups.isFrozen(done.group)) continue;
      this.#done.delete(pod.metadata!.uid!);
      this.#settle(pod);
    }
  }

  async #startAgain(): Promise<void> {
    await sleep(againAfterMs, undefined, { signal: this.#closing.signal }).catch(() => {});
    if (!this.#closing.signal.aborted) await this.#pods.start();
  }

  /** Makes a container what its pod asks for, one step after the other; each step looks at the newest that is known. */
  #settle({ metadata }: V1Pod): void {
    const name = metadata!.name!;
    const uid = metadata!.uid!;
    const { logger, namespace } = this.#options;
    void this.#lock.run(uid, async () => {
      while (!this.#closing.signal.aborted) {
        const pod = this.#pods.get(name, namespace);
        if (pod?.metadata?.uid !== uid) return;
        try {
          if (await this.#step(pod)) return;
        } catch (error) {
          if (this.#closing.signal.aborted || isGone(error)) return;
          logger.error({ err: error, pod: name }, 'a sandbox could not be frozen or thawed; it is tried again');
        }
        await sleep(againAfterMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    });
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
      if (!(await groups.set(group, state, stepMs, this.#closing.signal))) {
        logger.warn({ pod: metadata!.name, state }, 'the kernel has not frozen or thawed a sandbox in time');
        return false;
      }
      this.#done.set(uid, { containerId, group, frozen });
    }
    if (metadata!.annotations?.[annotations.frozenNow] !== `${frozen}`) await this.#report(pod, frozen);
    return true;
  }

  async #report({ metadata }: V1Pod, frozen: boolean): Promise<void> {
    const { name, uid } = metadata!;
    const body = { metadata: { uid, annotations: { [annotations.frozenNow]: `${frozen}` } } };
    const { namespace } = this.#options;
    // Through the status: that right does not allow a change of what a pod runs.
    await this.#core.patchNamespacedPodStatus({ name: name!, namespace, body }, mergeOptions);
  }
}

/** The API server was asked for these alone; a container of anything else is never touched. */
function isOurs({ metadata, spec }: V1Pod, { namespace, nodeName }: NodeHelperOptions): boolean {
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
