import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, ImportJobId, ProjectId, SandboxId, TemplateId, UserId } from '../../domain/ids.ts';
import { readRegistryImage } from '../../domain/templates/image.ts';
import { recordEvent } from '../core/events.ts';
import { requestSignal, requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type Scope, scopeTransaction } from '../core/scope.ts';
import { lockAdmins, requireAnAdmin } from './admins.ts';
import { recordAudit } from './audit-events.ts';
import { findDefaultProjectId } from './projects.ts';
import { User } from './user.entity.ts';
import { auditedFields, lockUser, requireOtherRoot } from './user-management.ts';

/** The number of rows that one statement moves or removes. */
const atOnce = 1000;

const over = "status in ('terminated', 'failed')";

/**
 * Begins the deletion of a user: disables them, removes their projects without sandboxes, and starts the workflow that
 * does the rest. If the user is already being deleted, it changes nothing.
 * @returns the number of projects without sandboxes that the user had
 * @throws {AppError} `not_found`, `own_deletion`, `last_root_user`, `last_admin`
 */
export async function requestUserDeletion(
  em: EntityManager,
  scope: Scope,
  by: { userId: UserId },
  userId: UserId,
): Promise<number> {
  return scopeTransaction(em, scope, async (tx) => {
    await lockAdmins(tx);
    const user = await lockUser(tx, scope, userId);
    if (userId === by.userId)
      throw new AppError('own_deletion', 'You cannot delete your own user; ask another root user');
    await requireOtherRoot(tx, user, 'deleted');
    if (user.deletionRequestedAt) return 0;
    const [empty] = await query<{ count: number }>(
      tx,
      `select count(*)::int as count from projects p where p.owner_user_id = ?
         and not exists (select 1 from sandboxes s where s.project_id = p.project_id and s.deleted_at is null)`,
      [userId],
    );
    // Other projects have rows of deleted sandboxes, which the workflow moves first.
    await query(
      tx,
      `delete from projects p where p.owner_user_id = ?
         and not exists (select 1 from sandboxes s where s.project_id = p.project_id)`,
      [userId],
    );
    await recordAudit(tx, { accountId: user.accountId, objectId: userId, before: auditedFields(user), after: null });
    tx.assign(user, { status: 'disabled', deletionRequestedAt: new Date() });
    await tx.flush();
    if (user.role === 'admin') await requireAnAdmin(tx);
    requestStart(tx, 'userDeletion', userId, { accountId: user.accountId, userId });
    return empty!.count;
  });
}

/** Some sandboxes of a user that have not ended, and the number of all of them. */
export async function findSandboxesToEnd(
  em: EntityManager,
  userId: UserId,
): Promise<{ sandboxIds: SandboxId[]; total: number }> {
  const rows = await query<{ sandbox_id: SandboxId; total: number }>(
    em.fork(),
    `select sandbox_id, (count(*) over ())::int as total from sandboxes
      where owner_user_id = ? and deleted_at is null and not ${over} order by created_at limit ?`,
    [userId, atOnce],
  );
  return { sandboxIds: rows.map((row) => row.sandbox_id), total: rows[0]?.total ?? 0 };
}

/**
 * Hands a part of a user's objects over to the root user of the account: projects with their ended sandboxes, and
 * templates that others can see. Call this until it returns 0.
 * @returns the number of changed rows
 */
export async function handOver(em: EntityManager, userId: UserId): Promise<number> {
  return em.fork().transactional(async (tx) => {
    const user = await tx.findOne(User, { userId });
    if (!user) return 0;
    const successor = await findSuccessor(tx, user);
    const templates = await query(
      tx,
      `with handed_over as (
         update templates set owner_user_id = ?, updated_at = now()
          where owner_user_id = ? and visibility <> 'private' returning template_id
       ), jobs as (
         update import_jobs j set owner_user_id = ? from handed_over h where j.template_id = h.template_id
       ) select 1 from handed_over`,
      [successor.userId, userId, successor.userId],
    );
    return (
      (await cancelPrivateImports(tx, userId)) +
      templates.length +
      (await moveDeletedSandboxes(tx, userId, successor)) +
      (await moveProjects(tx, user, successor)) +
      (await moveEndedSandboxes(tx, userId, successor))
    );
  });
}

/** Cancels the copies, which would otherwise continue until they find that their template is gone. */
async function cancelPrivateImports(tx: EntityManager, userId: UserId): Promise<number> {
  const jobs = await query<{ job_id: ImportJobId }>(
    tx,
    `update import_jobs j set status = 'cancelled', completed_at = now(), updated_at = now()
       from templates t where t.template_id = j.template_id and t.owner_user_id = ? and t.visibility = 'private'
        and j.status in ('pending', 'running') returning j.job_id`,
    [userId],
  );
  for (const { job_id: jobId } of jobs) requestSignal(tx, 'imageImport', jobId, 'importCancelled', { jobId });
  return jobs.length;
}

interface Successor {
  userId: UserId;
  projectId: ProjectId;
}

/** A successor always exists, because the last enabled root user can be neither disabled nor deleted. */
async function findSuccessor(tx: EntityManager, { accountId, userId }: User): Promise<Successor> {
  const root = await tx.findOneOrFail(
    User,
    { accountId, userId: { $ne: userId }, isRootUser: true, status: 'enabled' },
    { orderBy: { createdAt: 'asc', userId: 'asc' } },
  );
  return { userId: root.userId, projectId: await findDefaultProjectId(tx, root.userId) };
}

/** Moves rows of deleted sandboxes to the default project. */
async function moveDeletedSandboxes(tx: EntityManager, userId: UserId, to: Successor): Promise<number> {
  const rows = await query(
    tx,
    `update sandboxes set owner_user_id = ?, project_id = ? where sandbox_id in
       (select sandbox_id from sandboxes where owner_user_id = ? and deleted_at is not null limit ?) returning 1`,
    [to.userId, to.projectId, userId, atOnce],
  );
  return rows.length;
}

/** Renames projects whose name the new owner already has. Removes projects without sandboxes. */
async function moveProjects(tx: EntityManager, user: User, to: Successor): Promise<number> {
  const removed = await query(
    tx,
    `delete from projects p where p.owner_user_id = ?
       and not exists (select 1 from sandboxes s where s.project_id = p.project_id) returning 1`,
    [user.userId],
  );
  const moved = await query(
    tx,
    `update projects p set owner_user_id = ?, is_default = false, updated_at = now(), name = case
        when length(named.own) <= 64 and not exists
          (select 1 from projects taken where taken.owner_user_id = ? and lower(taken.name) = lower(named.own))
        then named.own else left(p.name, 38) || ' (' || right(p.project_id, 20) || ')' end
      from (select project_id, name || ' (' || ?::text || ')' as own from projects where owner_user_id = ?) named
      where p.project_id = named.project_id returning 1`,
    [to.userId, to.userId, user.username, user.userId],
  );
  return removed.length + moved.length;
}

async function moveEndedSandboxes(tx: EntityManager, userId: UserId, to: Successor): Promise<number> {
  const rows = await query(
    tx,
    `update sandboxes set owner_user_id = ?, updated_at = now() where sandbox_id in
       (select sandbox_id from sandboxes where owner_user_id = ? and deleted_at is null and ${over} limit ?) returning 1`,
    [to.userId, userId, atOnce],
  );
  return rows.length;
}

/**
 * Tables with rows that are removed with the user. Sessions, links and known addresses are removed by the deletion of
 * the user's row.
 */
const ownTables = ['api_keys', 'notifications', 'quota_allocations', 'quota_requests', 'webhook_endpoints'] as const;

/**
 * Removes a part of the user's own objects, and finally the user.
 * @returns `done`: the user does not exist any more; `left`: there are new objects that must be ended or handed over
 * first
 */
export async function removeUser(em: EntityManager, userId: UserId): Promise<'done' | 'more' | 'left'> {
  return em.fork().transactional(async (tx) => {
    // While the user's row is locked, no rows that refer to it can be inserted.
    const found = await query(tx, 'select 1 from users where user_id = ? for update', [userId]);
    if (found.length === 0) return 'done';
    for (const table of ownTables) {
      const rows = await query(
        tx,
        `delete from ${table} where ctid = any(array(select ctid from ${table} where user_id = ? limit ?)) returning 1`,
        [userId, atOnce],
      );
      if (rows.length === atOnce) return 'more';
    }
    await removePrivateTemplates(tx, userId);
    const [left] = await query<{ found: boolean }>(
      tx,
      `select exists (select 1 from sandboxes where owner_user_id = ?) or exists (select 1 from projects where owner_user_id = ?)
         or exists (select 1 from templates where owner_user_id = ?) as found`,
      [userId, userId, userId],
    );
    if (left!.found) return 'left';
    await tx.nativeDelete(User, { userId });
    return 'done';
  });
}

async function removePrivateTemplates(tx: EntityManager, userId: UserId): Promise<void> {
  const rows = await query<{
    template_id: TemplateId;
    account_id: AccountId | null;
    name: string;
    image: string | null;
  }>(
    tx,
    `delete from templates where owner_user_id = ? and visibility = 'private'
     returning template_id, account_id, name, image`,
    [userId],
  );
  for (const { template_id: templateId, account_id, name, image } of rows) {
    // Only built-in templates, which have no owner, have no account.
    const accountId = account_id!;
    if (image && readRegistryImage(image)) requestStart(tx, 'imageRemoval', image, { accountId, image });
    const object = { objectId: templateId, accountId, userId };
    await recordEvent(tx, object, 'template.deleted', { template_id: templateId, name });
  }
}
