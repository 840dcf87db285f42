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

/** What a helper of a node works with. */
export interface HelperOptions {
  config: KubeConfig;
  /** Only pods of this namespace are sandboxes. */
  namespace: string;
  nodeName: string;
  groups: NodeGroups;
  logger: DriverLogger;
}

/** What a helper does with each pod of its node. */
export interface PodWork {
  /** Of the pods that it is about, as labels. */
  selector: string;
  /** Makes a pod what its annotations ask for. @returns false: it is not so yet, and is tried again */
  settle(pod: V1Pod): Promise<boolean>;
  /** After an error of `settle`, other than that the pod is gone. @returns as `settle` */
  failed(pod: V1Pod, error: unknown): Promise<boolean>;
  /** After the pod is gone. */
  forget(uid: string): void;
}

/**
 * The pods of one node that a helper there is about. Each is worked on after each change of it, one step after the other,
 * and each step sees the newest that is known. Nothing is kept: after a start all pods are seen anew.
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

  /** Begins to watch, and goes on trying where the API server is away. */
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

  /** Works on a pod as after a change of it. */
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

  /** Writes annotations through the status: that right does not allow a change of what a pod runs. */
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
