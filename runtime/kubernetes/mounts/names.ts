import type { V1Pod } from '@kubernetes/client-node';

/** The container of a mount pod. */
export const mountContainer = 'mount';

export const mountLabels = {
  /** On a mount's pod, Secret and policy: the mount. */
  mount: 'sandbox-platform/mount',
  /** And its sandbox. */
  mountOf: 'sandbox-platform/mount-of',
} as const;

export const mountAnnotations = {
  /** On a mount pod: where the mount belongs, as JSON (`MountPlace`). */
  into: 'sandbox-platform/mount-into',
  /** On a mount pod: `bound` asks the mount helper to put the mount into its place, `unbound` to take it out. */
  wanted: 'sandbox-platform/mount-wanted',
  /** On a mount pod, written by the mount helper: how far it is, as JSON (`MountState`). */
  state: 'sandbox-platform/mount-state',
  /** On a disk: the mounts of its sandbox, as JSON. */
  held: 'sandbox-platform/mounts',
} as const;

/** Where a mount belongs. */
export interface MountPlace {
  /** The sandbox's pod, by name and uid. */
  pod: string;
  uid: string;
  /** The path in the sandbox. */
  target: string;
  /** The endpoint is in a range that the operator opened: failures there are not to be told apart. */
  isOpened: boolean;
}

/** How far the mount helper is with a mount. */
export type MountState =
  /** The bucket answers. */
  | { state: 'ready' }
  /** The sandbox has it. */
  | { state: 'bound' }
  /** The sandbox has it no more. */
  | { state: 'unbound' }
  /** `reason` is in words for users. */
  | { state: 'failed'; reason: string };

/** Null: no helper has come to it. */
export function stateOf({ metadata }: V1Pod): MountState | null {
  const text = metadata?.annotations?.[mountAnnotations.state];
  return text === undefined ? null : JSON.parse(text);
}

export const isMountPod = ({ metadata }: V1Pod) => metadata?.labels?.[mountLabels.mount] !== undefined;
