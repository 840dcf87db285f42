import { z } from 'zod';

/** Path of every route on one sandbox. What cannot be an id is not found rather than invalid. */
export const sandboxPath = z.object({ sandbox_id: z.string().describe('`sbx-…`') });
