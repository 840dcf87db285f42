import { z } from 'zod';
import { givenId } from '../../schemas/fields.ts';

/** Path of every route on one sandbox. What cannot be an id is not found rather than invalid. */
export const sandboxPath = z.object({ sandbox_id: givenId('sandbox').describe('`sbx-…`') });
