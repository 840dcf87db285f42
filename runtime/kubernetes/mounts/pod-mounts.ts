import { randomBytes } from 'node:crypto';
import type { V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../../domain/ids.ts';
import { disabled, isSameMount, type MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { DriverError, type SandboxSpec, type WantedMounts } from '../../driver.ts';
import { credentialsRequired, mountFailure } from '../../mounts/failures.ts';
import type { Cluster } from '../cluster.ts';
import type { ClusterWatch } from '../cluster-watch.ts';
import type { KubernetesDriverOptions } from '../options.ts';
import { EndpointGuard, type EndpointGuardOptions } from './endpoint-guard.ts';
import { type HeldMount, heldAnnotation, heldOn } from './held-mounts.ts';
import {
  buildMountPod,
  buildMountPolicy,
  buildMountSecret,
  type Mount,
  type MountManifestOptions,
} from './mount-manifests.ts';
import { isMountPod, type MountPlace, mountAnnotations, mountLabels, parseMountState } from './names.ts';

/** Longer than the mount helper waits for s3fs, because the helper's report says what is wrong. */
const helperSeconds = 35;

export interface PodMountsOptions extends Omit<EndpointGuardOptions, 'hasResolvers'> {
  manifests: MountManifestOptions;
  /** How long a mount pod may take until it runs. */
  podStartSeconds: number;
}

/** A sandbox with its running or frozen pod and its disk. */
export interface MountedPod {
  spec: SandboxSpec;
  pod: V1Pod;
  disk: V1PersistentVolumeClaim;
}

/** A mount that is being made. */
interface MadeMount extends HeldMount {
  /** The name of the mount pod. */
  pod: string;
}

/**
 * The mounts of sandboxes on a cluster. Each mount has its own pod with s3fs on the sandbox's node, and a policy that
 * lets this pod reach only its endpoint. The node's mount helper places the mount in the sandbox. The credentials are
 * in a Secret until the mount is deleted, disabled or replaced, or the sandbox is removed. So mounts with long-lived
 * credentials are made again when an ended sandbox starts again. This process writes and deletes the Secrets but never
 * reads them. Calls for one sandbox must not overlap.
 */
export class PodMounts {
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #options: PodMountsOptions;
  readonly #guard: EndpointGuard;
  /** The mounts that were last written to each disk, by the disk's uid. The watch may still have an older version. */
  readonly #held = new Map<string, readonly HeldMount[]>();

  constructor(cluster: Cluster, watch: ClusterWatch, options: PodMountsOptions) {
    this.#cluster = cluster;
    this.#watch = watch;
    this.#options = options;
    this.#guard = new EndpointGuard(cluster, { ...options, hasResolvers: options.manifests.dns !== undefined });
  }

  /**
   * Gives a pod the wanted mounts. It makes the mounts with new credentials and those that have a Secret but no pod,
   * keeps the mounts that exist, and removes the others. After a failure the earlier mounts stay.
   * @returns the resulting slots
   * @throws {DriverError} `object_storage_mount_failed`; `object_storage_credentials_required` for an active mount that
   *   is absent and has no credentials
   */
  async apply(mounted: MountedPod, wanted: WantedMounts, signal: AbortSignal): Promise<MountSlot[]> {
    const { disk, pod } = mounted;
    const held = this.#heldBy(disk);
    const active = wanted.slots.filter(({ state }) => state === 'active');
    const heldFor = (slot: MountSlot) =>
      slot.slot in wanted.credentials
        ? undefined
        : held.find((each) => each.slot.slot === slot.slot && isSameMount(each.slot, slot));
    const isKept = (slot: MountSlot) => {
      const found = heldFor(slot);
      return found !== undefined && this.#isServed(found, pod);
    };
    const isStored = (slot: MountSlot) => heldFor(slot) !== undefined && !slot.shortLived;
    const absent = active.filter((slot) => !isKept(slot));
    const missing = absent.filter((slot) => !(slot.slot in wanted.credentials) && !isStored(slot));
    if (missing.length > 0 && !wanted.bestEffort) throw credentialsRequired(missing);

    const toMake = absent.filter((slot) => !missing.includes(slot));
    const made = toMake.map((slot): MadeMount => {
      const id = () => `mount-${randomBytes(8).toString('hex')}`;
      return { slot, name: heldFor(slot)?.name ?? id(), pod: id() };
    });
    const fresh = made.filter(({ slot }) => slot.slot in wanted.credentials);
    const failed = new Set<MountSlot>(missing);
    // The mounts are noted before they are made, so that another process finds them if this one is killed.
    if (fresh.length > 0) await this.#note(disk, [...held, ...fresh]);
    const outcomes = await Promise.allSettled(made.map((each) => this.#make(mounted, each, wanted, signal)));
    const failures = outcomes.flatMap((outcome, index) =>
      outcome.status === 'rejected' ? [{ mount: made[index]!, reason: outcome.reason as unknown }] : [],
    );
    for (const { mount } of failures) failed.add(mount.slot);
    if (failures.length > 0 && (!wanted.bestEffort || signal.aborted)) {
      await this.#undo(disk, held, made, fresh);
      throw failures[0]!.reason;
    }
    const [good, bad] = [made, made].map((all, at) => all.filter(({ slot }) => failed.has(slot) === (at === 1))) as [
      MadeMount[],
      MadeMount[],
    ];
    const stays = (each: HeldMount) =>
      active.some((slot) => isSameMount(each.slot, slot) && heldFor(slot)?.name === each.name && !failed.has(slot));
    const outdated = held.filter((each) => !stays(each));
    try {
      for (const each of outdated) await this.#unbind(each, pod, signal);
      await Promise.all(good.map((each) => this.#bind(each, signal)));
    } catch (error) {
      await this.#undo(disk, held, made, fresh);
      throw error;
    }
    await this.#drop(mounted.spec.sandboxId, [...outdated, ...bad.filter((each) => fresh.includes(each))]);
    for (const each of bad) await this.#cluster.deletePod(each.pod);
    const kept = held.filter(stays);
    const now = [...kept, ...good.filter((each) => fresh.includes(each))].map(({ slot, name }) => ({ slot, name }));
    if (JSON.stringify(now) !== JSON.stringify(held)) await this.#note(disk, now);
    return wanted.slots.map((slot) => (failed.has(slot) ? disabled(slot) : slot));
  }

  /** The slots of a pod that already runs. Slots that are not mounted are `disabled`. */
  current(disk: V1PersistentVolumeClaim, pod: V1Pod, slots: readonly MountSlot[]): MountSlot[] {
    const held = this.#heldBy(disk);
    const isThere = (slot: MountSlot) => held.some((each) => isSameMount(each.slot, slot) && this.#isServed(each, pod));
    return slots.map((slot) => (slot.state !== 'active' || isThere(slot) ? slot : disabled(slot)));
  }

  /** Deletes the mount pods of a sandbox without waiting. Accesses to their mounts then fail at once. */
  async end(sandboxId: string): Promise<void> {
    const pods = this.#listPods(sandboxId).filter(({ metadata }) => !metadata?.deletionTimestamp);
    await Promise.all(pods.map(({ metadata }) => this.#cluster.deletePod(metadata!.name!)));
  }

  /** Removes all mounts of a sandbox and their credentials. */
  async remove(sandboxId: SandboxId): Promise<void> {
    await this.end(sandboxId);
    const disk = this.#watch.findDisk(sandboxId);
    // If the disk is gone, the cluster deletes the objects that it owned.
    if (!disk) return;
    await this.#drop(sandboxId, this.#heldBy(disk));
    this.#held.delete(disk.metadata!.uid!);
  }

  /** Deletes mount pods whose sandbox's pod is gone. The cluster would delete them too, but later. */
  async removeOrphans(): Promise<void> {
    const uids = new Set(this.#watch.pods().map(({ metadata }) => metadata!.uid!));
    const orphans = this.#watch.pods().filter((pod) => isMountPod(pod) && !uids.has(parsePlace(pod).uid));
    for (const { metadata } of orphans) await this.#cluster.deletePod(metadata!.name!);
  }

  async #make(
    { spec, pod, disk }: MountedPod,
    made: MadeMount,
    { credentials }: WantedMounts,
    signal: AbortSignal,
  ): Promise<void> {
    const { slot } = made;
    const { manifests } = this.#options;
    const route = await this.#guard.resolveRoute(slot);
    const owner = { name: disk.metadata!.name!, uid: disk.metadata!.uid! };
    const mount: Mount = { name: made.name, sandboxId: spec.sandboxId, disk: owner };
    const key = credentials[slot.slot];
    if (key) await this.#cluster.createSecret(buildMountSecret(mount, key, manifests), signal);
    // The policy must exist before the mount pod runs.
    await this.#cluster.applyPolicy(buildMountPolicy(mount, route, manifests), signal);
    const place: MountPlace = {
      pod: pod.metadata!.name!,
      uid: pod.metadata!.uid!,
      target: slot.mountPoint,
      isOpened: route.isOpened,
    };
    const of = { name: made.pod, node: pod.spec!.nodeName!, place, cpuCount: spec.cpuCount };
    await this.#cluster.applyPod(buildMountPod(mount, route, of, manifests), signal);
    await this.#when(made, 'ready', signal);
  }

  async #bind(made: MadeMount, signal: AbortSignal): Promise<void> {
    const { uid } = this.#watch.pod(made.pod)?.metadata ?? {};
    if (!uid) throw mountFailure(made.slot, 'its pod is gone');
    await this.#cluster.annotatePod(made.pod, uid, { [mountAnnotations.wanted]: 'bound' });
    await this.#when(made, 'bound', signal);
  }

  /** Removes a mount from a sandbox, even if its mount pod has ended and accesses to it fail. */
  async #unbind(held: HeldMount, sandbox: V1Pod, signal: AbortSignal): Promise<void> {
    const pod = this.#findPod(held, sandbox);
    if (!pod) return;
    const { name, uid } = pod.metadata!;
    await this.#cluster.annotatePod(name!, uid!, { [mountAnnotations.wanted]: 'unbound' });
    await this.#when({ ...held, pod: name! }, 'unbound', signal);
  }

  /** Waits until the mount helper reports this state. */
  async #when({ slot, pod: name }: MadeMount, wanted: 'ready' | 'bound' | 'unbound', signal: AbortSignal) {
    const isPulled = () => this.#watch.pod(name)?.status?.containerStatuses?.[0]?.state?.running !== undefined;
    const check = () => {
      const pod = this.#watch.pod(name);
      const state = pod && parseMountState(pod);
      if (state?.state === 'failed') throw mountFailure(slot, state.reason);
      if (state?.state === wanted) return true;
      if (wanted === 'unbound') return pod ? undefined : true;
      if (pod && hasEnded(pod)) throw mountFailure(slot, 'its s3fs has ended');
      if (pod && isNotPulled(pod)) throw mountFailure(slot, 'the image with s3fs could not be pulled');
      return undefined;
    };
    const late = () => mountFailure(slot, isPulled() ? noHelper : 'its pod did not start in time');
    const started = () => (isPulled() ? true : check());
    if (wanted === 'ready') {
      await this.#watch.until(name, started, { seconds: this.#options.podStartSeconds, late, signal });
    }
    await this.#watch.until(name, check, { seconds: helperSeconds, late, signal });
  }

  /** Removes everything that a failed call has made. Secrets of earlier calls stay. */
  async #undo(
    disk: V1PersistentVolumeClaim,
    held: readonly HeldMount[],
    made: readonly MadeMount[],
    fresh: readonly MadeMount[],
  ): Promise<void> {
    for (const { pod } of made) await this.#cluster.deletePod(pod);
    await this.#drop(null, fresh);
    if (fresh.length > 0) await this.#note(disk, held);
  }

  /** Removes mounts with their Secrets and policies, and the pods of a sandbox that serve them. */
  async #drop(sandboxId: string | null, mounts: readonly HeldMount[]): Promise<void> {
    const names = new Set(mounts.map(({ name }) => name));
    const pods = sandboxId === null ? [] : this.#listPods(sandboxId).filter((pod) => names.has(readMountName(pod)));
    await Promise.all([
      ...pods.map(({ metadata }) => this.#cluster.deletePod(metadata!.name!)),
      ...[...names].flatMap((name) => [this.#cluster.deleteSecret(name), this.#cluster.deletePolicy(name)]),
    ]);
  }

  async #note({ metadata }: V1PersistentVolumeClaim, held: readonly HeldMount[]): Promise<void> {
    const { name, uid } = metadata!;
    const noted = held.map(({ slot, name: mount }) => ({ slot, name: mount }));
    await this.#cluster.annotateDisk(name!, uid!, heldAnnotation(noted));
    this.#held.set(uid!, noted);
  }

  #heldBy(disk: V1PersistentVolumeClaim): readonly HeldMount[] {
    return this.#held.get(disk.metadata!.uid!) ?? heldOn(disk);
  }

  #listPods(sandboxId: string): V1Pod[] {
    return this.#watch.pods().filter(({ metadata }) => metadata?.labels?.[mountLabels.mountOf] === sandboxId);
  }

  /** The mount pod whose mount is in this pod of a sandbox. Null: the mount is not in this pod. */
  #findPod(held: HeldMount, sandbox: V1Pod): V1Pod | null {
    const isIts = (pod: V1Pod) =>
      isMountPod(pod) && readMountName(pod) === held.name && parsePlace(pod).uid === sandbox.metadata!.uid;
    return this.#watch.pods().find((pod) => isIts(pod) && parseMountState(pod)?.state === 'bound') ?? null;
  }

  #isServed(held: HeldMount, sandbox: V1Pod): boolean {
    const pod = this.#findPod(held, sandbox);
    return pod !== null && !hasEnded(pod);
  }
}

const noHelper = 'no mount helper of its node answered';
const readMountName = (pod: V1Pod) => pod.metadata!.labels![mountLabels.mount]!;
const parsePlace = (pod: V1Pod): MountPlace => JSON.parse(pod.metadata!.annotations![mountAnnotations.into]!);
const pullFailures = new Set(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName']);
const isNotPulled = ({ status }: V1Pod) =>
  pullFailures.has(status?.containerStatuses?.[0]?.state?.waiting?.reason ?? '');
const hasEnded = ({ metadata, status }: V1Pod) =>
  metadata?.deletionTimestamp !== undefined || status?.phase === 'Failed' || status?.phase === 'Succeeded';

/** Refuses a spec with mounts that this cluster cannot make. @throws {DriverError} `not_on_a_cluster` */
export function requireMountable(
  spec: SandboxSpec,
  of: { hasMounts: boolean; runtimeClass?: string | undefined },
): void {
  const { slots = [], direct } = spec.storage ?? {};
  if (!slots.some(({ state }) => state === 'active')) return;
  const refuse = (what: string) => new DriverError('not_on_a_cluster', `The cluster of this sandbox has no ${what}`);
  if (!of.hasMounts) throw refuse('mounts of object storage');
  if (direct) throw refuse('direct mounts of object storage');
  if (of.runtimeClass !== undefined) throw refuse('mounts of object storage beside its runtime class');
}

/** The mounts of a driver. Null: its sandboxes have none. */
export function createMounts(
  options: KubernetesDriverOptions,
  cluster: Cluster,
  watch: ClusterWatch,
  podStartSeconds: number,
) {
  const { mounts, closedRanges = [], podNetwork, config } = options;
  if (!mounts) return null;
  return new PodMounts(cluster, watch, {
    manifests: { ...options, s3fsImage: mounts.s3fsImage },
    outboundRanges: mounts.outboundRanges,
    closedRanges: [...closedRanges, podNetwork],
    ownServices: mounts.ownServices,
    apiServer: config.getCurrentCluster()!.server,
    podStartSeconds,
  });
}
