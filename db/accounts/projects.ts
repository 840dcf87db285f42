import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, ProjectId, UserId } from '../../domain/ids.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { type AuditedFields, recordAudit } from './audit-events.ts';
import { joinAccountRoot, type Person, type PersonRow, readPerson, selectPerson } from './people.ts';
import { Project } from './project.entity.ts';

export interface ProjectView {
  project: Project;
  owner: Person;
  /** The account's first root user. */
  accountOwner: Person | null;
  sandboxCount: number;
}

const listed: ListedTable = {
  table: 'projects',
  alias: 'p',
  key: ['project_id'],
  beside: `${selectPerson('o', 'owner')}, ${selectPerson('r', 'root')},
           (select count(*)::int from sandboxes s
             where s.project_id = p.project_id and s.deleted_at is null) as sandbox_count`,
  joins: `join users o on o.user_id = p.owner_user_id ${joinAccountRoot('p', 'r')}`,
};

/** The project, if the caller may see it. */
export async function findProjectView(
  em: EntityManager,
  scope: Scope,
  projectId: ProjectId,
): Promise<ProjectView | null> {
  const row = await readOne<ViewRow>(em, listed, [
    { sql: 'p.project_id = ?', values: [projectId] },
    withinScope(scope, 'p'),
  ]);
  return row && readView(em, row);
}

/** A page of the projects that a caller may see. */
export async function listProjectViews(
  em: EntityManager,
  scope: Scope,
  filter: { ownerUserId?: UserId | undefined },
  listing: Listing,
): Promise<ListPage & { views: ProjectView[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'p')];
  if (filter.ownerUserId) conditions.push({ sql: 'p.owner_user_id = ?', values: [filter.ownerUserId] });
  const { rows, ...page } = await readPage<ViewRow>(em, listed, conditions, listing);
  return { views: rows.map((row) => readView(em, row)), ...page };
}

/** The project for new and evicted sandboxes of a user. */
export async function findDefaultProjectId(em: EntityManager, userId: UserId): Promise<ProjectId> {
  const project = await em.findOneOrFail(Project, { ownerUserId: userId, isDefault: true }, { fields: ['projectId'] });
  return project.projectId;
}

/**
 * Makes a project. A user's first project always becomes the default. Concurrent creates never exceed the limit of the
 * account. A user without any project always gets a first one.
 * @throws {AppError} `project_name_taken`, `project_limit_reached`
 */
export async function createProject(
  em: EntityManager,
  owner: { accountId: AccountId; userId: UserId },
  wanted: { projectId: ProjectId; name: string; description: string; isDefault: boolean },
  maxProjects: number,
): Promise<void> {
  await accountTransaction(em, owner.accountId, async (tx) => {
    await lockRow(tx, 'accounts', owner.accountId);
    await lockOwner(tx, owner.userId);
    const isFirst = (await tx.count(Project, { ownerUserId: owner.userId })) === 0;
    if (!isFirst && (await tx.count(Project, { accountId: owner.accountId })) >= maxProjects) {
      throw new AppError(
        'project_limit_reached',
        `The plan allows ${maxProjects} projects in an account; delete one first`,
      );
    }
    const isDefault = isFirst || wanted.isDefault;
    if (isDefault) await unsetDefault(tx, owner.userId);
    tx.create(Project, {
      projectId: wanted.projectId,
      accountId: owner.accountId,
      ownerUserId: owner.userId,
      name: wanted.name,
      description: wanted.description,
      isDefault,
    });
  });
}

/**
 * Changes a project that the caller may see. If it becomes the default, the previous default loses that role.
 * @throws {AppError} `not_found`, `project_name_taken`, `only_default_project`
 */
export async function updateProject(
  em: EntityManager,
  scope: Scope,
  projectId: ProjectId,
  change: { name?: string | undefined; description?: string | undefined; isDefault?: boolean | undefined },
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const project = await lockProject(tx, scope, projectId);
    const before = auditedFields(project);
    if (change.isDefault === false && project.isDefault) {
      throw new AppError(
        'only_default_project',
        'A user has exactly one default project; make another one the default instead',
      );
    }
    if (change.isDefault && !project.isDefault) {
      await unsetDefault(tx, project.ownerUserId);
      project.isDefault = true;
    }
    if (change.name !== undefined) project.name = change.name;
    if (change.description !== undefined) project.description = change.description;
    await recordAudit(tx, { accountId: project.accountId, objectId: projectId, before, after: auditedFields(project) });
  });
}

/** The fields of a project in the audit log. */
function auditedFields(project: Project): AuditedFields {
  const { ownerUserId, name, description, isDefault } = project;
  return { owner_user_id: ownerUserId, name, description: description.slice(0, 1000), is_default: isDefault };
}

/**
 * Removes an empty project. Its rows of deleted sandboxes, which are invisible, move to the owner's default project.
 * @throws {AppError} `not_found`, `project_not_empty`, `only_default_project`
 */
export async function deleteProject(em: EntityManager, scope: Scope, projectId: ProjectId): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const project = await lockProject(tx, scope, projectId);
    if (project.isDefault) {
      throw new AppError('only_default_project', 'The default project cannot be deleted; make another one the default');
    }
    const left = await tx.count(Sandbox, { projectId, deletedAt: null });
    if (left > 0) {
      throw new AppError('project_not_empty', `The project still has ${left} sandboxes; move or delete them first`);
    }
    const defaultProjectId = await findDefaultProjectId(tx, project.ownerUserId);
    await tx.nativeUpdate(Sandbox, { projectId }, { projectId: defaultProjectId });
    tx.remove(project);
    await recordAudit(tx, {
      accountId: project.accountId,
      objectId: projectId,
      before: auditedFields(project),
      after: null,
    });
  });
}

/** Locks the project's owner first, then the project. Every change of projects uses this order. */
async function lockProject(tx: EntityManager, scope: Scope, projectId: ProjectId): Promise<Project> {
  const seen = { projectId, ...entitiesWithin(scope) };
  const found = await tx.findOne(Project, seen, { fields: ['ownerUserId'], disableIdentityMap: true });
  if (!found) throw notFound('Project');
  await lockOwner(tx, found.ownerUserId);
  const project = await tx.findOne(Project, seen, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (!project) throw notFound('Project');
  return project;
}

async function lockOwner(tx: EntityManager, userId: UserId): Promise<void> {
  if (!(await lockRow(tx, 'users', userId))) throw notFound('User');
}

async function unsetDefault(tx: EntityManager, ownerUserId: UserId): Promise<void> {
  await tx.nativeUpdate(Project, { ownerUserId, isDefault: true }, { isDefault: false, updatedAt: new Date() });
}

type ViewRow = EntityRow<Project> & PersonRow<'owner'> & PersonRow<'root'> & { sandbox_count: number };

function readView(em: EntityManager, row: ViewRow): ProjectView {
  return {
    project: readRow(em, Project, row),
    owner: readPerson(row, 'owner')!,
    accountOwner: readPerson(row, 'root'),
    sandboxCount: row.sandbox_count,
  };
}
