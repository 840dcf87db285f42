import { setTimeout as sleep } from 'node:timers/promises';
import {
  CoreV1Api,
  type KubeConfig,
  type ListWatch,
  PatchStrategy,
  setHeaderOptions,
  type V1Pod,
} from '@kubernetes/client-node';
import { z } from 'zod';
import { checkMountPoint } from '../../../../domain/object-storage.ts';
import type { DriverLogger } from '../../../driver-logger.ts';
import { KeyedLock } from '../../../process/keyed-lock.ts';
import { isGone } from '../../api-errors.ts';
import { againAfterMs, listWatch } from '../../list-watch.ts';
import { fieldManager, labels, sandboxContainer } from '../../names.ts';
import type { NodeGroups } from '../../node-helper/node-groups.ts';
import { type MountPlace, type MountState, mountAnnotations, mountContainer, mountLabels, stateOf } from '../names.ts';
import { Join } from './join.ts';
import { firstProcessOf, type PodProcess } from './pod-process.ts';

const mergeOptions = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
const selector = `${labels.managedBy}=${fieldManager},${mountLabels.mount}`;

const placeSchema = z.object({
  pod: z.string(),
  uid: z.string(),
  target: z.string().refine((target) => 'path' in checkMountPoint(target)),
  isOpened: z.boolean(),
});

export interface MountHelperOptions {
  config: KubeConfig;
  /** Only pods of this namespace are sandboxes. */
  namespace: string;
  nodeName: string;
  groups: NodeGroups;
  logger: DriverLogger;
}

/**
 * Makes the mounts that mount pods of one node serve, and puts them into their sandboxes, as annotations of the mount
 * pods ask. It has no port, sees no credential and talks to no storage. A mount that is in its place needs it no more; one
 * that is on its way when it ends fails. Everyone who may write annotations of pods in the namespace may have it mount
 * into sandboxes there, and into nothing else.
 */
export class MountHelper {
  readonly #options: MountHelperOptions;
  readonly #core: CoreV1Api;
  readonly #pods: ListWatch<V1Pod>;
  readonly #lock = new KeyedLock();
  readonly #closing = new AbortController();
  /** By the mount pod's uid. */
  readonly #joins = new Map<string, Join>();
  /** What was reported last, by uid: the watch hears of it later. */
  readonly #reported = new Map<string, MountState>();

  constructor(options: MountHelperOptions) {
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
    this.#pods.on('delete', ({ metadata }) => {
      this.#forget(metadata!.uid!);
      this.#reported.delete(metadata!.uid!);
    });
    this.#pods.on('error', (error) => {
      if (this.#closing.signal.aborted) return;
      this.#options.logger.warn({ err: error }, 'the watch of the pods ended; it begins again');
      void this.#startAgain();
    });
    await this.#pods.start();
  }

  /** Stops watching. Mounts that are in their places stay. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const uid of [...this.#joins.keys()]) this.#forget(uid);
    await this.#pods.stop();
  }

  async #startAgain(): Promise<void> {
    await sleep(againAfterMs, undefined, { signal: this.#closing.signal }).catch(() => {});
    if (!this.#closing.signal.aborted) await this.#pods.start();
  }

  #forget(uid: string): void {
    this.#joins.get(uid)?.end();
    this.#joins.delete(uid);
  }

  /** One step after the other; each looks at the newest that is known. */
  #settle({ metadata }: V1Pod): void {
    const name = metadata!.name!;
    const uid = metadata!.uid!;
    const { logger, namespace } = this.#options;
    void this.#lock.run(uid, async () => {
      const pod = this.#pods.get(name, namespace);
      if (pod?.metadata?.uid !== uid || this.#closing.signal.aborted) return;
      try {
        const state = await this.#step(pod);
        if (state) await this.#report(pod, state);
      } catch (error) {
        if (this.#closing.signal.aborted || isGone(error)) return;
        logger.error({ err: error, pod: name }, 'a mount could not be brought on');
        this.#forget(uid);
        const failed: MountState = { state: 'failed', reason: 'the node could not mount it' };
        await this.#report(pod, failed).catch((failure) => {
          if (!isGone(failure)) logger.error({ err: failure, pod: name }, 'the end of a mount could not be reported');
        });
      }
    });
  }

  /** @returns what has become of it; null: there is nothing to do */
  async #step(pod: V1Pod): Promise<MountState | null> {
    const uid = pod.metadata!.uid!;
    const state = (this.#reported.get(uid) ?? stateOf(pod))?.state;
    const wanted = pod.metadata!.annotations?.[mountAnnotations.wanted];
    if (state === undefined) return this.#begin(pod);
    if (state === 'ready' && wanted === 'bound') {
      const join = this.#joins.get(uid);
      const now = await (join?.bind() ?? lost);
      this.#forget(uid);
      return now;
    }
    if (state === 'bound' && wanted === 'unbound') {
      const place = placeOf(pod);
      const sandbox = await this.#sandboxAt(place);
      // With its processes the mount is gone.
      if (sandbox) await Join.unbind(sandbox, place);
      return { state: 'unbound' };
    }
    return null;
  }

  async #begin(pod: V1Pod): Promise<MountState | null> {
    const uid = pod.metadata!.uid!;
    if (pod.metadata!.deletionTimestamp) return null;
    const server = firstProcessOf(pod, mountContainer, this.#options.groups);
    if (!server) return null;
    const place = placeOf(pod);
    const sandbox = await this.#sandboxAt(place);
    if (!sandbox) return { state: 'failed', reason: 'the sandbox does not run' };
    const join = Join.start(sandbox, server, place);
    this.#joins.set(uid, join);
    const now = await join.whenReady();
    if (now.state === 'failed') this.#forget(uid);
    return now;
  }

  /** Null: its first process does not run. */
  async #sandboxAt({ pod: name, uid }: MountPlace): Promise<PodProcess | null> {
    const { namespace, nodeName, groups } = this.#options;
    const pod = await this.#core.readNamespacedPod({ name, namespace });
    const { metadata, spec } = pod;
    const isOurs =
      metadata?.uid === uid &&
      metadata.labels?.[labels.managedBy] === fieldManager &&
      metadata.labels[labels.sandbox] !== undefined &&
      spec?.nodeName === nodeName;
    return isOurs ? firstProcessOf(pod, sandboxContainer, groups) : null;
  }

  async #report({ metadata }: V1Pod, state: MountState): Promise<void> {
    const { name, uid } = metadata!;
    const body = { metadata: { uid, annotations: { [mountAnnotations.state]: JSON.stringify(state) } } };
    const { namespace } = this.#options;
    this.#reported.set(uid!, state);
    // Through the status: that right does not allow a change of what a pod runs.
    await this.#core.patchNamespacedPodStatus({ name: name!, namespace, body }, mergeOptions);
  }
}

const lost: MountState = { state: 'failed', reason: 'the mount helper of its node was started again' };

const placeOf = (pod: V1Pod): MountPlace =>
  placeSchema.parse(JSON.parse(pod.metadata!.annotations?.[mountAnnotations.into] ?? 'null'));
