import { z } from 'zod';
import { optional } from '../schemas/fields.ts';

/** Timeouts of less are raised to this, so that a change arrives before the sandbox has ended. */
const shortestSeconds = 2;

/** A timeout in seconds, which counts from now. The plan limits it. */
export const e2bTimeout = () =>
  z
    .int()
    .min(0)
    .max(2_147_483_647)
    .transform((seconds) => Math.max(seconds, shortestSeconds));

/**
 * A field whose effect the platform does not have. Its harmless values are accepted, and null, so that no program
 * believes in an effect that is not there.
 * @param isHarmless whether the value asks for what happens anyway
 * @param reason the end of a sentence that begins with the field
 */
export function unsupported(isHarmless: (value: unknown) => boolean, reason: string) {
  return optional(z.unknown().refine((value) => isHarmless(value), reason));
}

/** Whether a value is an object or a list without content: nothing but nulls and empty values. */
export function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined) return true;
  return typeof value === 'object' && Object.values(value).every(isEmpty);
}

/** `memory: false` of a pause and of an automatic one. */
export const noMemory = 'must be true: a pause keeps the memory';

export const noNetworkRules =
  'is not supported: sandboxes have no rules of their own for the network. allow_internet_access: false of a create cuts ' +
  'a sandbox off from the internet';
