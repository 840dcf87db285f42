import { z } from 'zod';
import {
  updateProject as changeProject,
  findProjectView,
  listProjectViews,
  createProject as makeProject,
  type ProjectView,
  deleteProject as removeProject,
} from '../../../db/accounts/projects.ts';
import type { Scope } from '../../../db/core/scope.ts';
import { planHeldBy } from '../../../domain/billing/plans.ts';
import { notFound } from '../../../domain/errors.ts';
import type { ProjectId } from '../../../domain/ids.ts';
import { checkProjectName } from '../../../domain/names.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  givenId,
  nameField,
  optional,
  optionalBody,
  optionalQuery,
  personSchema,
  presentPerson,
  time,
  withDefault,
} from '../../schemas/fields.ts';
import {
  accountQuery,
  ownerFilter,
  paginationSchema,
  pagingQuery,
  presentPagination,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';

/** A project. Account root users and admins also get `owner` and `account_owner`. */
const projectSchema = z
  .object({
    project_id: z.string(),
    name: z.string(),
    description: z.string(),
    owner_user_id: z.string(),
    status: z.enum(['active']).describe('Reserved'),
    is_default: z.boolean(),
    sandbox_count: z.int().min(0).describe('Sandboxes that are not deleted, including terminated ones'),
    created_at: time(),
    updated_at: time(),
    owner: personSchema.optional(),
    account_owner: personSchema.nullable().optional().describe("The account's root user"),
  })
  .meta({ id: 'Project' });

/** Path of routes on one project. */
export const projectPath = z.object({ project_id: givenId('project').describe('`prj-…`') });

function presentProject(view: ProjectView, scope: Scope): z.output<typeof projectSchema> {
  const { project } = view;
  return {
    project_id: project.projectId,
    name: project.name,
    description: project.description,
    owner_user_id: project.ownerUserId,
    status: project.status,
    is_default: project.isDefault,
    sandbox_count: view.sandboxCount,
    created_at: project.createdAt,
    updated_at: project.updatedAt,
    ...(scope.rows !== 'user' && {
      owner: presentPerson(view.owner),
      account_owner: view.accountOwner && presentPerson(view.accountOwner),
    }),
  };
}

/** The project with its current row. Null: the caller has no project with this id. */
async function findProject(
  deps: ApiDependencies,
  scope: Scope,
  projectId: ProjectId,
): Promise<z.output<typeof projectSchema> | null> {
  const view = await findProjectView(deps.orm.em.fork(), scope, projectId);
  return view && presentProject(view, scope);
}

/** As `findProject`. @throws {AppError} `not_found` */
export async function readProject(
  deps: ApiDependencies,
  scope: Scope,
  projectId: ProjectId,
): Promise<z.output<typeof projectSchema>> {
  const project = await findProject(deps, scope, projectId);
  if (!project) throw notFound('Project');
  return project;
}

const createBody = z.object({
  name: nameField(64).describe('Unique among your projects'),
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
      body: createBody,
      response: {
        201: envelope(projectSchema, 'The project'),
        ...failures(ofMutations, ofIdempotency, 'invalid_name', 'project_name_taken', 'project_limit_reached'),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      const scope = requireScope(request);
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

/** `GET /v1/projects`. A user sees their own projects, the account root all projects of the account. */
export function listProjects(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listProjects',
      tags: ['Projects'],
      summary: 'List projects, newest first',
      description: 'Users see their own projects, root users those of the account.',
      querystring: z.object({
        ...pagingQuery,
        ...accountQuery,
        owner_user_id: optionalQuery(givenId('user', z.string().max(64))).describe('Account root only'),
      }),
      response: {
        200: envelope(
          z.object({ projects: z.array(projectSchema), pagination: paginationSchema }),
          'A page of projects',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = requireScope(request);
      const listing = toListing(deps, request, 50);
      const filter = { ownerUserId: ownerFilter(scope, request.query.owner_user_id) };
      const { views, ...page } = await listProjectViews(deps.orm.em.fork(), scope, filter, listing);
      return success({
        projects: views.map((view) => presentProject(view, scope)),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

/** `GET /v1/projects/{project_id}`. */
export function getProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects/:project_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getProject',
      tags: ['Projects'],
      summary: 'Read a project',
      description: "`sandbox_count` is the number of sandboxes in the project's list.",
      params: projectPath,
      response: { 200: envelope(projectSchema, 'The project'), ...failures('not_found') },
    },
    handler: async (request) => success(await readProject(deps, requireScope(request), request.params.project_id)),
  });
}

const updateBody = optionalBody(
  z.object({
    name: optional(nameField(64)).describe("Unique among the owner's projects"),
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
      body: updateBody,
      response: {
        200: envelope(projectSchema, 'The project'),
        ...failures(ofMutations, 'not_found', 'invalid_name', 'project_name_taken', 'only_default_project'),
      },
    },
    handler: async (request) => {
      const scope = requireScope(request);
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

/** `DELETE /v1/projects/{project_id}`: deletes an empty project that is not the default. */
export function deleteProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/projects/:project_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteProject',
      tags: ['Projects'],
      summary: 'Delete an empty project',
      description: 'A project with sandboxes, including ended ones, and the default project cannot be deleted.',
      params: projectPath,
      response: {
        200: envelope(z.object({ project_id: z.string(), deleted: z.literal(true) }), 'It is deleted'),
        ...failures(ofMutations, 'not_found', 'project_not_empty', 'only_default_project'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId } = request.params;
      await removeProject(deps.orm.em.fork(), requireScope(request), projectId);
      return success({ project_id: projectId, deleted: true as const }, 'The project is deleted');
    },
  });
}
