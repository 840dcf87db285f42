import { z } from 'zod';
import { minTimeoutSeconds } from '../../../domain/billing/plans.ts';
import { positiveInt } from '../../schemas/fields.ts';

/** A timeout in a request. It is compared with the plan's maximum later. */
export const timeoutSeconds = () =>
  positiveInt().min(minTimeoutSeconds, `timeout must be at least ${minTimeoutSeconds} seconds`).describe('Seconds');

/** Body of PUT and POST timeout. */
export const timeoutBody = z.object({ timeout: timeoutSeconds() });
