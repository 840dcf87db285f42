import { z } from 'zod';
import { time } from '../../../schemas/fields.ts';

/** The reply to every way of signing in. */
export const tokenSchema = z
  .object({
    access_token: z.string().describe('For `Authorization: Bearer …`, on every route that accepts an API key'),
    expires_at: time(),
  })
  .meta({ id: 'AccessToken' });
