import type { V1PersistentVolumeClaim } from '@kubernetes/client-node';
import { z } from 'zod';
import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { mountAnnotations } from './names.ts';

/** A mount of a sandbox, as the annotation of the sandbox's disk stores it. It contains no credentials. */
export interface HeldMount {
  slot: MountSlot;
  /** The name of the mount and of its Secret. */
  name: string;
}

const schema = z.array(
  z.object({
    slot: z.object({
      slot: z.int(),
      state: z.enum(['active', 'disabled', 'free']),
      uri: z.string(),
      mountPoint: z.string(),
      region: z.string().nullable(),
      endpoint: z.string().nullable(),
      shortLived: z.boolean(),
    }),
    name: z.string(),
  }),
);

export function heldOn({ metadata }: V1PersistentVolumeClaim): HeldMount[] {
  const text = metadata?.annotations?.[mountAnnotations.held];
  return text === undefined ? [] : schema.parse(JSON.parse(text));
}

export const heldAnnotation = (held: readonly HeldMount[]) => ({ [mountAnnotations.held]: JSON.stringify(held) });
