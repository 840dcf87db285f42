import { z } from 'zod';
import { findProjectView, type ProjectView } from '../../../../db/accounts/projects.ts';
import type { Scope } from '../../../../db/core/scope.ts';
import { notFound } from '../../../../domain/errors.ts';
import type { ProjectId } from '../../../../domain/ids.ts';
import type { ApiDependencies } from '../../../dependencies.ts';
import { givenId, personSchema, presentPerson, time } from '../../../schemas/fields.ts';

/** A project. Account root users and admins also get `owner` and `account_owner`. */
export const projectSchema = z
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

export function presentProject(view: ProjectView, scope: Scope): z.output<typeof projectSchema> {
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
export async function findProject(
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
