import { z } from 'zod';
import { findDefaultProjectId } from '../../../db/accounts/projects.ts';
import { moveSandboxToProject } from '../../../db/sandboxes/sandbox-projects.ts';
import { listSandboxViews } from '../../../db/sandboxes/sandbox-reads.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId } from '../../schemas/fields.ts';
import { paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { statusFilter } from '../sandboxes/list.ts';
import { allFields, presentSandbox, readSandboxRow } from '../sandboxes/reply.ts';
import { projectPath, readProject } from './projects.ts';

/** An item of a project's list of sandboxes. */
const slimSandboxSchema = allFields
  .pick({
    name: true,
    description: true,
    template_id: true,
    owner_user_id: true,
    project_id: true,
    cpu_count: true,
    memory_mb: true,
    storage_gb: true,
    status: true,
    started_at: true,
    stopped_at: true,
    created_at: true,
    updated_at: true,
  })
  .extend({ id: z.string().meta({ examples: ['sbx-5k2vq8m3w7xj4r6t9ypz1hdn'] }) })
  .meta({ id: 'ProjectSandbox' });

/** `GET /v1/projects/{project_id}/sandboxes`. */
export function listProjectSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects/:project_id/sandboxes',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listProjectSandboxes',
      tags: ['Projects'],
      summary: "List a project's sandboxes, newest first",
      description: 'Returns a short form of each. `status` takes several values, separated by commas.',
      params: projectPath,
      querystring: z.object({ ...pagingQuery, status: statusFilter }),
      response: {
        200: envelope(
          z.object({ sandboxes: z.array(slimSandboxSchema), pagination: paginationSchema }),
          'A page of sandboxes',
        ),
        ...failures(ofPaging, 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = requireScope(request);
      const { project_id: projectId } = request.params;
      await readProject(deps, scope, projectId);
      const listing = toListing(deps, request, 50);
      const filter = { projectId, statuses: request.query.status };
      const { views, ...page } = await listSandboxViews(deps.orm.em.fork(), scope, filter, listing);
      const now = new Date();
      const sandboxes = views.map((view) => {
        const fields = presentSandbox(view, deps.settings, now);
        return { ...fields, id: fields.sandbox_id };
      });
      return success({ sandboxes, pagination: presentPagination(listing, page) });
    },
  });
}

/** Path of routes on a sandbox in a project. */
const projectSandboxPath = z.object({
  project_id: givenId('project').describe('`prj-…`'),
  sandbox_id: givenId('sandbox').describe('`sbx-…`'),
});

/** The reply of add and evict. */
const moveSchema = <A extends string>(action: A) =>
  z.object({
    sandbox_id: z.string(),
    project_id: z.string().describe('The project that it is in now'),
    previous_project: z.string(),
    action: z.literal(action),
  });

/** `POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/add`: for a running sandbox. */
export function addSandboxToProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/projects/:project_id/sandboxes/:sandbox_id/add',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'addSandboxToProject',
      tags: ['Projects'],
      summary: 'Put a running sandbox into a project',
      description:
        "The project must belong to the sandbox's user. Usage belongs to the project that the sandbox was in at the " +
        'time.',
      params: projectSandboxPath,
      response: {
        200: envelope(moveSchema('added_to_project'), 'The sandbox is now in the project'),
        ...failures(ofMutations, 'not_found', 'project_of_another_user', 'sandbox_not_running'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId, sandbox_id: sandboxId } = request.params;
      const previous = await moveSandboxToProject(deps.orm.em.fork(), requireScope(request), sandboxId, projectId);
      return success(
        {
          sandbox_id: sandboxId,
          project_id: projectId,
          previous_project: previous,
          action: 'added_to_project' as const,
        },
        'The sandbox is now in the project',
      );
    },
  });
}

/**
 * `POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/evict`: moves a running sandbox from the project into the
 * default project of the sandbox's user. That user is the caller, unless an account root evicts the sandbox.
 */
export function evictSandboxFromProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/projects/:project_id/sandboxes/:sandbox_id/evict',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'evictSandboxFromProject',
      tags: ['Projects'],
      summary: "Put a running sandbox back into its user's default project",
      description: 'The sandbox moves to the default project of its user. It must be in the project in the path.',
      params: projectSandboxPath,
      response: {
        200: envelope(moveSchema('evicted_to_default_project'), 'The sandbox is now in the default project'),
        ...failures(ofMutations, 'not_found', 'sandbox_not_running'),
      },
    },
    handler: async (request) => {
      const scope = requireScope(request);
      const { project_id: projectId, sandbox_id: sandboxId } = request.params;
      const project = await readProject(deps, scope, projectId);
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      if (sandbox.projectId !== project.project_id) throw notFound('Sandbox in this project');
      const em = deps.orm.em.fork();
      const home = await findDefaultProjectId(em, sandbox.ownerUserId);
      const previous = await moveSandboxToProject(em, scope, sandboxId, home);
      return success(
        {
          sandbox_id: sandboxId,
          project_id: home,
          previous_project: previous,
          action: 'evicted_to_default_project' as const,
        },
        'The sandbox is now in the default project',
      );
    },
  });
}
