import { z } from 'zod';
import { queryFlag } from '../../schemas/fields.ts';

/** Accepted for clients that send it; both work from every state without. */
export const forceQuery = z.object({ force: queryFlag().describe('Accepted; nothing needs to be forced') });

/** The reply of terminate and delete. */
export const ending = <S extends string>(status: S) =>
  z.object({ sandbox_id: z.string(), status: z.literal(status), note: z.string() });
