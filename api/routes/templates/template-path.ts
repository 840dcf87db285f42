import { z } from 'zod';

export const templatePath = z.object({ template_id: z.string().max(64).describe('`tpl-…`') });
