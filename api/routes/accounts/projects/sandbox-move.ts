import { z } from 'zod';
import { givenId } from '../../../schemas/fields.ts';

/** Path of routes on a sandbox in a project. */
export const projectSandboxPath = z.object({
  project_id: givenId('project').describe('`prj-…`'),
  sandbox_id: givenId('sandbox').describe('`sbx-…`'),
});

/** The reply of add and evict. */
export const moveOf = <A extends string>(action: A) =>
  z.object({
    sandbox_id: z.string(),
    project_id: z.string().describe('The project that it is in now'),
    previous_project: z.string(),
    action: z.literal(action),
  });
