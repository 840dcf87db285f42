import { z } from 'zod';
import { createProject as makeProject } from '../../../../db/accounts/projects.ts';
import { planHeldBy } from '../../../../db/billing/subscriptions.ts';
import { checkProjectName } from '../../../../domain/names.ts';
import { anyUser, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { bodyBytesWithDescription, description, nameOf, withDefault } from '../../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { findProject, projectSchema, readProject } from './project-schema.ts';

const body = z.object({
  name: nameOf(64).describe('Unique among your projects'),
  description: withDefault(description(), ''),
  is_default: withDefault(z.boolean(), false).describe("A user's first project is always the default"),
});

/** `POST /v1/projects`. */
export function createProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/projects',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role'), idempotency: { makes: 'project' } },
    schema: {
      operationId: 'createProject',
      tags: ['Projects'],
      summary: 'Create a project',
      description:
        "A user's first project is the default project, which gets new sandboxes without a `project_id`. Names " +
        'are unique ' +
        "among the user's projects.",
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(projectSchema, 'The project'),
        ...failures(ofMutations, ofIdempotency, 'invalid_name', 'project_name_taken', 'project_limit_reached'),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const scope = scopeOf(request);
      const { maxProjects } = planHeldBy(caller, deps.plans);
      const project = await createOnce(request, 'project', {
        find: (projectId) => findProject(deps, scope, projectId),
        create: async (projectId) => {
          const wanted = {
            projectId,
            name: checkProjectName(request.body.name.trim()),
            description: request.body.description,
            isDefault: request.body.is_default,
          };
          await makeProject(deps.orm.em.fork(), caller, wanted, maxProjects);
          return readProject(deps, scope, projectId);
        },
      });
      return reply.code(201).send(success(project));
    },
  });
}
