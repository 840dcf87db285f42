import { z } from 'zod';
import { minTimeoutSeconds } from '../../../domain/plans.ts';
import { positiveInt } from '../../schemas/fields.ts';

/** A length of running phases that a caller may ask for; the plan's maximum is held against it later. */
export const timeoutSeconds = () =>
  positiveInt().min(minTimeoutSeconds, `timeout must be at least ${minTimeoutSeconds} seconds`).describe('Seconds');

/** Body of PUT and POST timeout. */
export const timeoutBody = z.object({ timeout: timeoutSeconds() });
