import { z } from 'zod';
import { updateProject as changeProject } from '../../../../db/accounts/projects.ts';
import { checkProjectName } from '../../../../domain/names.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { bodyBytesWithDescription, description, nameOf, optional, optionalBody } from '../../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { projectPath, projectSchema, readProject } from './project-schema.ts';

const body = optionalBody(
  z.object({
    name: optional(nameOf(64)).describe("Unique among the owner's projects"),
    description: optional(description()),
    is_default: optional(z.boolean()).describe('true takes it from the present default; false is refused on that one'),
  }),
);

/** `PUT /v1/projects/{project_id}`. */
export function updateProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/projects/:project_id',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role') },
    schema: {
      operationId: 'updateProject',
      tags: ['Projects'],
      summary: 'Change a project',
      description:
        'Changes the fields in the body. `is_default: true` makes it the default project of its user in place of the ' +
        'previous one; `false` is refused for the default project.',
      params: projectPath,
      body,
      response: {
        200: envelope(projectSchema, 'The project'),
        ...failures(ofMutations, 'not_found', 'invalid_name', 'project_name_taken', 'only_default_project'),
      },
    },
    handler: async (request) => {
      const scope = scopeOf(request);
      const { project_id: projectId } = request.params;
      const { name } = request.body;
      await changeProject(deps.orm.em.fork(), scope, projectId, {
        name: name === undefined ? undefined : checkProjectName(name.trim()),
        description: request.body.description,
        isDefault: request.body.is_default,
      });
      return success(await readProject(deps, scope, projectId), 'The project is changed');
    },
  });
}
