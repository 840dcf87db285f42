import { z } from 'zod';
import { givenId } from '../../schemas/fields.ts';

export const templatePath = z.object({ template_id: givenId('template', z.string().max(64)).describe('`tpl-…`') });
