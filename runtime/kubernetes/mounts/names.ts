import type { V1Pod } from '@kubernetes/client-node';

/** The container of a mount pod. */
export const mountContainer = 'mount';

export const mountLabels = {
  /** On the pod, Secret and policy of a mount: the name of the mount. */
  mount: 'sandbox-platform/mount',
  /** On the pod, Secret and policy of a mount: the id of its sandbox. */
  mountOf: 'sandbox-platform/mount-of',
} as const;

export const mountAnnotations = {
  /** On a mount pod: the place of the mount in a sandbox, as JSON (`MountPlace`). */
  into: 'sandbox-platform/mount-into',
  /**
   * On a mount pod: `bound` asks the mount helper to place the mount in the sandbox, `unbound` to remove it from there.
   */
  wanted: 'sandbox-platform/mount-wanted',
  /** On a mount pod: the progress of the mount, as JSON (`MountState`). The mount helper writes it. */
  state: 'sandbox-platform/mount-state',
  /** On a disk: the mounts of its sandbox, as JSON. */
  held: 'sandbox-platform/mounts',
} as const;

/** The place of a mount in a sandbox. */
export interface MountPlace {
  /** The name and uid of the sandbox's pod. */
  pod: string;
  uid: string;
  /** The path of the mount point in the sandbox. */
  target: string;
  /** Whether the endpoint is in a range that the operator opened. All failures there must look the same to users. */
  isOpened: boolean;
}

/** The progress of the mount helper with a mount. */
export type MountState =
  /** The bucket answers. */
  | { state: 'ready' }
  /** The mount is in its place in the sandbox. */
  | { state: 'bound' }
  /** The mount was removed from the sandbox. */
  | { state: 'unbound' }
  /** `reason` is a text for users. */
  | { state: 'failed'; reason: string };

/** The state that the mount helper has reported. Null: it has reported none yet. */
export function parseMountState({ metadata }: V1Pod): MountState | null {
  const text = metadata?.annotations?.[mountAnnotations.state];
  return text === undefined ? null : JSON.parse(text);
}

export const isMountPod = ({ metadata }: V1Pod) => metadata?.labels?.[mountLabels.mount] !== undefined;
