import type { V1Pod } from '@kubernetes/client-node';
import { z } from 'zod';
import { checkMountPoint } from '../../../../domain/sandboxes/object-storage.ts';
import { isGone } from '../../api-errors.ts';
import { fieldManager, labels, sandboxContainer } from '../../names.ts';
import { type HelperOptions, NodePods } from '../../node-pods.ts';
import {
  type MountPlace,
  type MountState,
  mountAnnotations,
  mountContainer,
  mountLabels,
  parseMountState,
} from '../names.ts';
import { Join } from './join.ts';
import { findFirstProcess, type PodProcess } from './pod-process.ts';

const selector = `${labels.managedBy}=${fieldManager},${mountLabels.mount}`;

const placeSchema = z.object({
  pod: z.string(),
  uid: z.string(),
  target: z.string().refine((target) => 'path' in checkMountPoint(target)),
  isOpened: z.boolean(),
});

/**
 * Makes the mounts that the mount pods of one node serve, and places them in their sandboxes. Annotations of the mount
 * pods are the requests. The helper has no port, sees no credentials and does not connect to the storage. A mount in
 * its place does not need the helper any more. A mount that is being made fails if the helper ends. A client that may
 * write annotations of pods in the namespace can make the helper mount into sandboxes of this namespace, and nowhere
 * else.
 */
export class MountHelper {
  readonly #options: HelperOptions;
  readonly #pods: NodePods;
  /** The mounts that are being made, by the mount pod's uid. */
  readonly #joins = new Map<string, Join>();
  /** The last reported state by the mount pod's uid. The watch shows it only later. */
  readonly #reported = new Map<string, MountState>();

  constructor(options: HelperOptions) {
    this.#options = options;
    this.#pods = new NodePods(options, {
      selector,
      settle: async (pod) => {
        const state = await this.#step(pod);
        if (state) await this.#report(pod, state);
        return true;
      },
      failed: (pod, error) => this.#failed(pod, error),
      forget: (uid) => {
        this.#forget(uid);
        this.#reported.delete(uid);
      },
    });
  }

  /** Starts the watch. It keeps trying while the API server is not reachable. */
  async open(): Promise<void> {
    await this.#pods.open();
  }

  /** Stops the watch. Mounts in their places stay. */
  async close(): Promise<void> {
    const closed = this.#pods.close();
    for (const uid of [...this.#joins.keys()]) this.#forget(uid);
    await closed;
  }

  #forget(uid: string): void {
    this.#joins.get(uid)?.end();
    this.#joins.delete(uid);
  }

  /** Reports a mount as failed. It is not tried again. */
  async #failed(pod: V1Pod, error: unknown): Promise<true> {
    const { name, uid } = pod.metadata!;
    const { logger } = this.#options;
    logger.error({ err: error, pod: name }, 'a mount could not be made');
    this.#forget(uid!);
    await this.#report(pod, { state: 'failed', reason: 'the node could not mount it' }).catch((failure) => {
      if (!isGone(failure)) logger.error({ err: failure, pod: name }, 'the failure of a mount could not be reported');
    });
    return true;
  }

  /** @returns the new state of the mount; null when there is nothing to do */
  async #step(pod: V1Pod): Promise<MountState | null> {
    const uid = pod.metadata!.uid!;
    const state = (this.#reported.get(uid) ?? parseMountState(pod))?.state;
    const wanted = pod.metadata!.annotations?.[mountAnnotations.wanted];
    if (state === undefined) return this.#begin(pod);
    if (state === 'ready' && wanted === 'bound') {
      const join = this.#joins.get(uid);
      const now = await (join?.bind() ?? lost);
      this.#forget(uid);
      return now;
    }
    if (state === 'bound' && wanted === 'unbound') {
      const place = parsePlace(pod);
      const sandbox = await this.#sandboxAt(place);
      // If the sandbox's processes have ended, the mount is gone with them.
      if (sandbox) await Join.unbind(sandbox, place);
      return { state: 'unbound' };
    }
    return null;
  }

  async #begin(pod: V1Pod): Promise<MountState | null> {
    const uid = pod.metadata!.uid!;
    if (pod.metadata!.deletionTimestamp) return null;
    const server = findFirstProcess(pod, mountContainer, this.#options.groups);
    if (!server) return null;
    const place = parsePlace(pod);
    const sandbox = await this.#sandboxAt(place);
    if (!sandbox) return { state: 'failed', reason: 'the sandbox does not run' };
    const join = Join.start(sandbox, server, place);
    this.#joins.set(uid, join);
    const now = await join.whenReady();
    if (now.state === 'failed') this.#forget(uid);
    return now;
  }

  /** The first process of the sandbox. Null: it does not run. */
  async #sandboxAt({ pod: name, uid }: MountPlace): Promise<PodProcess | null> {
    const { namespace, nodeName, groups } = this.#options;
    const pod = await this.#pods.core.readNamespacedPod({ name, namespace });
    const { metadata, spec } = pod;
    const isOurs =
      metadata?.uid === uid &&
      metadata.labels?.[labels.managedBy] === fieldManager &&
      metadata.labels[labels.sandbox] !== undefined &&
      spec?.nodeName === nodeName;
    return isOurs ? findFirstProcess(pod, sandboxContainer, groups) : null;
  }

  async #report(pod: V1Pod, state: MountState): Promise<void> {
    this.#reported.set(pod.metadata!.uid!, state);
    await this.#pods.annotate(pod, { [mountAnnotations.state]: JSON.stringify(state) });
  }
}

const lost: MountState = { state: 'failed', reason: 'the mount helper of its node was started again' };

const parsePlace = (pod: V1Pod): MountPlace =>
  placeSchema.parse(JSON.parse(pod.metadata!.annotations?.[mountAnnotations.into] ?? 'null'));
