import { z } from 'zod';
import { givenId } from '../../schemas/fields.ts';

/** The path of every route on one sandbox. A text that is not an id gives 404 and not a validation error. */
export const sandboxPath = z.object({ sandbox_id: givenId('sandbox').describe('`sbx-…`') });
