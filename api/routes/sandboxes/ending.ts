import { z } from 'zod';
import { queryFlag } from '../../schemas/fields.ts';

/** Accepted for clients that send it. Both routes work from every status without it. */
export const forceQuery = z.object({ force: queryFlag().describe('Accepted for compatibility; has no effect') });

/** The reply of terminate and delete. */
export const ending = <S extends string>(status: S) =>
  z.object({ sandbox_id: z.string(), status: z.literal(status), note: z.string() });
