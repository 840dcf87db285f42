import type {
  KubeConfig,
  KubernetesObject,
  ListPromise,
  ListWatch,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Service,
} from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cluster } from './cluster.ts';
import { againAfterMs, listWatch } from './list-watch.ts';
import { readSandboxId } from './names.ts';
import { SandboxNames } from './sandbox-names.ts';

/**
 * The pods and disks of one host, and its Services if it has UDP ports. The watch lists each kind once and then follows
 * the changes. Reads come from memory.
 */
export class ClusterWatch {
  readonly #pods: ListWatch<V1Pod>;
  readonly #disks: ListWatch<V1PersistentVolumeClaim>;
  /** Null: this host has no Services, and may have no right to read them. */
  readonly #services: ListWatch<V1Service> | null;
  readonly #namespace: string;
  readonly #logger: DriverLogger;
  readonly #podNames = new SandboxNames();
  readonly #diskNames = new SandboxNames();
  /** Functions that are called after each change of a pod or a disk, by the object's name or its sandbox's id. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(
    config: KubeConfig,
    cluster: Cluster,
    of: { namespace: string; selector: string; hasServices?: boolean; logger: DriverLogger },
  ) {
    const { namespace, selector, hasServices } = of;
    this.#namespace = namespace;
    this.#logger = of.logger;
    const watch = <Type extends KubernetesObject>(kind: string, list: ListPromise<Type>) => {
      const path = `/api/v1/namespaces/${namespace}/${kind}`;
      return listWatch<Type>({ config, path, list, labelSelector: selector, isClosed: () => this.#closed });
    };
    this.#pods = watch('pods', () => cluster.listPods(selector));
    this.#disks = watch('persistentvolumeclaims', () => cluster.listDisks(selector));
    this.#services = hasServices ? watch('services', () => cluster.listServices(selector)) : null;
  }

  /**
   * Returns when all objects are listed.
   * @param onPod called with each pod after each change; `isGone` is true after the pod was removed
   * @throws {Error} when the cluster does not answer, or does not allow the watch
   */
  async open(onPod: (pod: V1Pod, isGone: boolean) => void): Promise<void> {
    const first = Promise.withResolvers<never>();
    first.promise.catch(() => {});
    this.#podNames.follow(this.#pods);
    this.#diskNames.follow(this.#disks);
    this.#pods.on('change', (pod) => this.#wake(pod));
    this.#pods.on('add', (pod) => onPod(pod, false));
    this.#pods.on('update', (pod) => onPod(pod, false));
    this.#pods.on('delete', (pod) => onPod(pod, true));
    this.#disks.on('change', (disk) => this.#wake(disk));
    let isOpen = false;
    for (const informer of this.#informers()) {
      informer.on('error', (error) => {
        if (!isOpen) return first.reject(error);
        if (this.#closed) return;
        this.#logger.warn({ err: error }, 'the watch of the cluster ended; it begins again');
        const timer = setTimeout(() => {
          this.#timers.delete(timer);
          if (!this.#closed) void informer.start();
        }, againAfterMs);
        this.#timers.add(timer);
      });
      await Promise.race([informer.start(), first.promise]);
    }
    isOpen = true;
  }

  pod(name: string): V1Pod | null {
    return this.#pods.get(name, this.#namespace) ?? null;
  }

  disk(name: string): V1PersistentVolumeClaim | null {
    return this.#disks.get(name, this.#namespace) ?? null;
  }

  /** The pod of a sandbox. Its name is not the sandbox's id if it was a warm pod. */
  findPod(sandboxId: SandboxId): V1Pod | null {
    return this.pod(sandboxId) ?? this.pod(this.#podNames.of(sandboxId) ?? sandboxId);
  }

  /** The disk of a sandbox. Its name is not the sandbox's id if it was made for a warm pod. */
  findDisk(sandboxId: SandboxId): V1PersistentVolumeClaim | null {
    return this.disk(sandboxId) ?? this.disk(this.#diskNames.of(sandboxId) ?? sandboxId);
  }

  pods(): readonly V1Pod[] {
    return this.#pods.list(this.#namespace);
  }

  disks(): readonly V1PersistentVolumeClaim[] {
    return this.#disks.list(this.#namespace);
  }

  service(name: string): V1Service | null {
    return this.#services?.get(name, this.#namespace) ?? null;
  }

  services(): readonly V1Service[] {
    return this.#services?.list(this.#namespace) ?? [];
  }

  /**
   * Calls `answer` now and after each change of a pod or a disk, until it returns a value.
   * @param name the name of the pod or disk, or the id of its sandbox
   * @param answer returns undefined to go on waiting; an error that it throws ends the wait
   * @throws {Error} the error of `late` after the time; the signal's reason when the signal aborts
   */
  async until<Answer>(
    name: string,
    answer: () => Answer | undefined,
    { seconds, late, signal }: { seconds: number; late: () => Error; signal?: AbortSignal },
  ): Promise<Answer> {
    const found = Promise.withResolvers<Answer>();
    const check = () => {
      try {
        const value = answer();
        if (value !== undefined) found.resolve(value);
      } catch (error) {
        found.reject(error);
      }
    };
    const abort = () => found.reject(signal?.reason);
    const timer = setTimeout(() => found.reject(late()), seconds * 1000);
    const waiting = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, waiting.add(check));
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    check();
    try {
      return await found.promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      waiting.delete(check);
      if (waiting.size === 0) this.#waiting.delete(name);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#informers().map((informer) => informer.stop()));
  }

  #informers() {
    return [this.#pods, this.#disks, ...(this.#services ? [this.#services] : [])];
  }

  #wake(object: KubernetesObject): void {
    // When a watch begins again, it reports a deletion before it removes the object from its list.
    queueMicrotask(() => {
      for (const key of new Set([object.metadata!.name!, readSandboxId(object)])) {
        for (const check of [...(this.#waiting.get(key ?? '') ?? [])]) check();
      }
    });
  }
}
