import type { KubernetesObject, V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';

/** Who writes these objects, for server-side apply. */
export const fieldManager = 'sandbox-platform';

/** The container of a sandbox; others of its pod prepare it and end. */
export const sandboxContainer = 'sandbox';

export const labels = {
  managedBy: 'app.kubernetes.io/managed-by',
  host: 'sandbox-platform/host',
  /**
   * The name of the sandbox's disk: the sandbox's id, but where the disk was made before the sandbox. It never changes on a
   * pod, because network plugins apply a changed label late.
   */
  sandbox: 'sandbox-platform/sandbox',
  /** Which probe of the cluster's isolation it belongs to. */
  probe: 'sandbox-platform/probe',
  /** Whether the policy of that probe closes it. */
  closed: 'sandbox-platform/closed',
  /** On pods that were made before their sandbox. */
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
  /** On a pod: `true` or `false`, written by the node helper once the kernel has done it. Not there: no helper has seen it. */
  frozenNow: 'sandbox-platform/frozen-now',
  /** On pods and disks that were made before their sandbox: `free` until a sandbox takes them, then `taken`. */
  warm: 'sandbox-platform/warm',
  /** On pods and disks whose label has no sandbox's id: the id. */
  sandbox: 'sandbox-platform/sandbox-id',
  /** On a pod that was made before its sandbox: what it had used by then, as JSON (`UseBefore`). */
  useBefore: 'sandbox-platform/use-before',
  /** On a disk: what is known of its image, as JSON. */
  image: 'sandbox-platform/image',
} as const;

export const selectorOf = (hostId: string) => `${labels.managedBy}=${fieldManager},${labels.host}=${hostId}`;

/** Of the sandboxes' own objects, without pods that look at an image. */
export const sandboxesOf = (hostId: string) => `${selectorOf(hostId)},${labels.sandbox}`;

/** Whether a pod or a disk waits for a sandbox. */
export const isFreeWarm = ({ metadata }: KubernetesObject) => metadata?.annotations?.[annotations.warm] === 'free';

/** The sandbox that an object belongs to. Null: none, such as of a pod that looks at an image. */
export function sandboxOf(object: KubernetesObject): SandboxId | null {
  if (isFreeWarm(object)) return null;
  const { labels: own, annotations: notes } = object.metadata ?? {};
  return ((notes?.[annotations.sandbox] ?? own?.[labels.sandbox]) as SandboxId | undefined) ?? null;
}

export function runOf(object: KubernetesObject): number | null {
  const run = object.metadata?.annotations?.[annotations.run];
  return run === undefined ? null : Number(run);
}

/** Whether the pod's sandbox shall be frozen. */
export const isFreezeWanted = ({ metadata }: V1Pod) => metadata?.annotations?.[annotations.frozen] === 'true';

/** Whether all processes of the pod's sandbox stand still, and shall: its memory is kept. */
export const isFrozen = (pod: V1Pod) =>
  isFreezeWanted(pod) && pod.metadata?.annotations?.[annotations.frozenNow] === 'true';
