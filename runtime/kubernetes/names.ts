import type { KubernetesObject, V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';

/** The field manager of these objects for server-side apply. */
export const fieldManager = 'sandbox-platform';

/** The container of a sandbox. The other containers of its pod are init containers. */
export const sandboxContainer = 'sandbox';

export const labels = {
  managedBy: 'app.kubernetes.io/managed-by',
  host: 'sandbox-platform/host',
  /**
   * The name of the sandbox's disk. It is the sandbox's id unless the disk was made for a warm pod. The label of a pod
   * never changes, because network plugins apply a changed label late.
   */
  sandbox: 'sandbox-platform/sandbox',
  /** The id of the isolation probe that an object belongs to. */
  probe: 'sandbox-platform/probe',
  /** On the pods that the policy of their isolation probe closes. */
  closed: 'sandbox-platform/closed',
  /** On pods and disks that were made before their sandbox (warm pods). */
  warm: 'sandbox-platform/warm',
  /** The build of an image that a pod works for. */
  build: 'sandbox-platform/build',
  /** The sandbox whose disk the pod of a build reads. */
  buildOf: 'sandbox-platform/build-of',
} as const;

export const annotations = {
  /** The number of the start or resume that the processes belong to. */
  run: 'sandbox-platform/run',
  /** On a pod: `ready` once the sandbox was ready; `ended` once its end was reported. */
  phase: 'sandbox-platform/phase',
  /** On a pod: `true` asks the node helper to freeze the sandbox, anything else to let it run. */
  frozen: 'sandbox-platform/frozen',
  /**
   * On a pod: whether the kernel has frozen the sandbox (`true`, `false`), as the node helper reports it. Absent: no
   * node helper has seen the pod yet.
   */
  frozenNow: 'sandbox-platform/frozen-now',
  /** On pods and disks that were made before their sandbox: `free` until a sandbox takes them, then `taken`. */
  warm: 'sandbox-platform/warm',
  /** On pods and disks whose label `sandbox` is not the sandbox's id: the id. */
  sandbox: 'sandbox-platform/sandbox-id',
  /**
   * On a pod that was made before its sandbox: the resources it used until the sandbox took it, as JSON (`UseBefore`).
   */
  useBefore: 'sandbox-platform/use-before',
  /** On a disk: the facts about its image, as JSON (`ImageFacts`). */
  image: 'sandbox-platform/image',
} as const;

export const hostSelector = (hostId: string) => `${labels.managedBy}=${fieldManager},${labels.host}=${hostId}`;

/** Selects the sandboxes' own objects and warm pods, without pods that inspect an image. */
export const sandboxSelector = (hostId: string) => `${hostSelector(hostId)},${labels.sandbox}`;

/** Whether an object is a warm pod, or the disk of one, that no sandbox has taken yet. */
export const isFreeWarm = ({ metadata }: KubernetesObject) => metadata?.annotations?.[annotations.warm] === 'free';

/** The sandbox that an object belongs to. Null: it belongs to no sandbox, for example a pod that inspects an image. */
export function readSandboxId(object: KubernetesObject): SandboxId | null {
  if (isFreeWarm(object)) return null;
  const { labels: own, annotations: notes } = object.metadata ?? {};
  return ((notes?.[annotations.sandbox] ?? own?.[labels.sandbox]) as SandboxId | undefined) ?? null;
}

export function readRun(object: KubernetesObject): number | null {
  const run = object.metadata?.annotations?.[annotations.run];
  return run === undefined ? null : Number(run);
}

/** Whether the platform has asked the node helper to freeze the pod's sandbox. */
export const isFreezeWanted = ({ metadata }: V1Pod) => metadata?.annotations?.[annotations.frozen] === 'true';

/** Whether the pod's sandbox is frozen, as the platform has asked. Its memory is kept. */
export const isFrozen = (pod: V1Pod) =>
  isFreezeWanted(pod) && pod.metadata?.annotations?.[annotations.frozenNow] === 'true';
