import { setTimeout as sleep } from 'node:timers/promises';
import {
  CoreV1Api,
  type KubeConfig,
  type ListWatch,
  PatchStrategy,
  setHeaderOptions,
  type V1Pod,
} from '@kubernetes/client-node';
import type { DriverLogger } from '../driver-logger.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { isGone } from './api-errors.ts';
import { againAfterMs, listWatch } from './list-watch.ts';
import type { NodeGroups } from './node-helper/node-groups.ts';

const mergeOptions = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

/** The options of a helper. */
export interface HelperOptions {
  config: KubeConfig;
  /** Only pods of this namespace are sandboxes. */
  namespace: string;
  nodeName: string;
  groups: NodeGroups;
  logger: DriverLogger;
}

/** The work of a helper on the pods of its node. */
export interface PodWork {
  /** The label selector of the pods that the helper works on. */
  selector: string;
  /** Does what the annotations of a pod ask for. @returns whether it is done; otherwise it is called again */
  settle(pod: V1Pod): Promise<boolean>;
  /** Called after `settle` has failed, unless the pod is gone. @returns as `settle` */
  failed(pod: V1Pod, error: unknown): Promise<boolean>;
  /** Called after the pod is gone. */
  forget(uid: string): void;
}

/**
 * The pods of one node that a helper works on. The helper works on a pod after each change, one step after the other,
 * and each step gets the newest known version of the pod. No state is stored: after a restart the helper works on all
 * pods.
 */
export class NodePods {
  readonly core: CoreV1Api;
  readonly #options: HelperOptions;
  readonly #work: PodWork;
  readonly #pods: ListWatch<V1Pod>;
  readonly #lock = new KeyedLock();
  readonly #closing = new AbortController();

  constructor(options: HelperOptions, work: PodWork) {
    const { config, namespace, nodeName } = options;
    this.#options = options;
    this.#work = work;
    this.core = config.makeApiClient(CoreV1Api);
    const { selector: labelSelector } = work;
    const fieldSelector = `spec.nodeName=${nodeName}`;
    const list = () => this.core.listNamespacedPod({ namespace, labelSelector, fieldSelector });
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const isClosed = () => this.#closing.signal.aborted;
    this.#pods = listWatch({ config, path, list, labelSelector, fieldSelector, isClosed });
  }

  /** Aborts when the helper ends. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Starts the watch. It keeps trying while the API server is not reachable. */
  async open(): Promise<void> {
    this.#pods.on('add', (pod) => this.settle(pod));
    this.#pods.on('update', (pod) => this.settle(pod));
    this.#pods.on('delete', (pod) => this.#work.forget(pod.metadata!.uid!));
    this.#pods.on('error', (error) => {
      if (this.closing.aborted) return;
      this.#options.logger.warn({ err: error }, 'the watch of the pods ended; it begins again');
      void this.#startAgain();
    });
    await this.#pods.start();
  }

  /** Stops watching. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#pods.stop();
  }

  list(): readonly V1Pod[] {
    return this.#pods.list(this.#options.namespace);
  }

  /** Works on a pod as if it had changed. */
  settle({ metadata }: V1Pod): void {
    const name = metadata!.name!;
    const uid = metadata!.uid!;
    void this.#lock.run(uid, async () => {
      for (;;) {
        const pod = this.#pods.get(name, this.#options.namespace);
        if (pod?.metadata?.uid !== uid || this.closing.aborted || (await this.#step(pod))) return;
        await this.#sleep();
      }
    });
  }

  /**
   * Writes annotations with a patch of the pod's status. The right to do so does not allow changes of the pod's spec.
   */
  async annotate({ metadata }: V1Pod, annotations: Record<string, string>): Promise<void> {
    const { name, uid } = metadata!;
    const of = { name: name!, namespace: this.#options.namespace, body: { metadata: { uid, annotations } } };
    await this.core.patchNamespacedPodStatus(of, mergeOptions);
  }

  async #step(pod: V1Pod): Promise<boolean> {
    try {
      return await this.#work.settle(pod);
    } catch (error) {
      return this.closing.aborted || isGone(error) || (await this.#work.failed(pod, error));
    }
  }

  async #startAgain(): Promise<void> {
    await this.#sleep();
    if (!this.closing.aborted) await this.#pods.start();
  }

  async #sleep(): Promise<void> {
    await sleep(againAfterMs, undefined, { signal: this.closing }).catch(() => {});
  }
}
