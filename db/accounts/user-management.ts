import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { requestStart } from '../core/outbox.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { lockAdmins, requireAnAdmin } from './admins.ts';
import { type AuditedFields, recordAudit } from './audit-events.ts';
import { Project } from './project.entity.ts';
import { User } from './user.entity.ts';

/** The maximum number of users of an account, including disabled ones. */
export const maxUsersPerAccount = 1000;

export interface NewUser {
  userId: UserId;
  email: string;
  username: string;
  displayName: string;
  description: string;
  role: User['role'];
  status: User['status'];
  /** Null: a mail invites the user to set a password. */
  passwordHash: string | null;
  isRootUser?: boolean;
}

/** The fields that an identity provider vouches for. */
export interface UserIdentity {
  oauthProvider: string;
  oauthProviderId: string;
  emailVerified: true;
}

export interface UserChange {
  displayName?: string | undefined;
  description?: string | undefined;
  role?: User['role'] | undefined;
  status?: User['status'] | undefined;
  isRootUser?: boolean | undefined;
}

const listed: ListedTable = { table: 'users', alias: 'u', key: ['user_id'] };

/** A page of the users that a caller may see. */
export async function listUsers(
  em: EntityManager,
  scope: Scope,
  filter: { status?: User['status'] | undefined },
  listing: Listing,
): Promise<ListPage & { users: User[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'u', 'user_id')];
  if (filter.status) conditions.push({ sql: 'u.status = ?', values: [filter.status] });
  const { rows, ...page } = await readPage<EntityRow<User>>(em, listed, conditions, listing);
  return { users: rows.map((row) => readRow(em, User, row)), ...page };
}

/**
 * Makes a user with a default project. A user without a password is invited by a mail.
 * @throws {AppError} `email_taken`, `username_taken`, `user_limit_reached`, and `admin_required` when a caller who is
 * not an admin makes an admin
 */
export async function createUser(
  em: EntityManager,
  by: { accountId: AccountId; role: User['role'] },
  wanted: NewUser,
): Promise<void> {
  const { accountId } = by;
  if (wanted.role === 'admin') requireAdmin(by);
  await accountTransaction(em, accountId, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    await addUser(tx, accountId, wanted);
    const { userId } = wanted;
    if (wanted.passwordHash === null) requestStart(tx, 'userInvitation', userId, { accountId, userId });
    await recordAudit(tx, { accountId, objectId: userId, before: null, after: auditedFields(wanted) });
  });
}

/**
 * Adds a user with a default project to an account that the transaction has locked.
 * @throws {AppError} `user_limit_reached`
 */
export async function addUser(
  tx: EntityManager,
  accountId: AccountId,
  wanted: NewUser & Partial<UserIdentity>,
): Promise<void> {
  if ((await tx.count(User, { accountId })) >= maxUsersPerAccount) {
    throw new AppError('user_limit_reached', `An account may have ${maxUsersPerAccount} users; delete one first`);
  }
  tx.create(User, { ...wanted, accountId });
  await tx.flush();
  tx.create(Project, {
    projectId: newId('project'),
    accountId,
    ownerUserId: wanted.userId,
    name: 'Default',
    isDefault: true,
  });
  await tx.flush();
}

/**
 * Changes a user that the caller may see. Disabling a user at once ends the user's open sessions and connections.
 * @throws {AppError} `not_found`, `admin_required`, `last_root_user`, `last_admin`, `user_being_deleted`
 */
export async function changeUser(
  em: EntityManager,
  scope: Scope,
  by: { role: User['role'] },
  userId: UserId,
  change: UserChange,
): Promise<void> {
  const mayTakeAnAdmin = change.role === 'user' || change.status === 'disabled';
  await scopeTransaction(em, scope, async (tx) => {
    if (mayTakeAnAdmin) await lockAdmins(tx);
    const user = await lockUser(tx, scope, userId);
    if (user.deletionRequestedAt) throw new AppError('user_being_deleted', 'The user is being deleted');
    const { role, status } = change;
    if (role !== undefined && role !== user.role) requireAdmin(by);
    if (status === 'disabled' && user.status !== 'disabled') await requireOtherRoot(tx, user, 'disabled');
    if (change.isRootUser === false) await requireOtherRoot(tx, user, 'made a plain user');
    const { isRootUser = user.isRootUser, displayName = user.displayName, description = user.description } = change;
    const before = auditedFields(user);
    const wasAdmin = user.role === 'admin' && user.status === 'enabled';
    tx.assign(user, { displayName, description, role: role ?? user.role, status: status ?? user.status, isRootUser });
    await tx.flush();
    if (mayTakeAnAdmin && wasAdmin) await requireAnAdmin(tx);
    await recordAudit(tx, { accountId: user.accountId, objectId: userId, before, after: auditedFields(user) });
  });
}

/**
 * Locks a user for a change, after the account. So each of several concurrent changes sees the root users that the
 * earlier ones have left.
 * @throws {AppError} `not_found`
 */
export async function lockUser(tx: EntityManager, scope: Scope, userId: UserId): Promise<User> {
  const within = { ...entitiesWithin(scope, 'userId'), userId };
  const found = await tx.findOne(User, within, { fields: ['accountId'], disableIdentityMap: true });
  if (!found) throw notFound('User');
  await lockRow(tx, 'accounts', found.accountId);
  await lockRow(tx, 'users', userId);
  const user = await tx.findOne(User, within);
  if (!user) throw notFound('User');
  return user;
}

/** The fields of a user in the audit log. */
export function auditedFields(
  user: Pick<NewUser, 'email' | 'username' | 'displayName' | 'role' | 'status'> & UserChange,
): AuditedFields {
  return {
    email: user.email,
    username: user.username,
    display_name: user.displayName,
    description: (user.description ?? '').slice(0, 1000),
    role: user.role,
    status: user.status,
    is_root_user: user.isRootUser ?? false,
  };
}

/** @throws {AppError} `last_root_user` */
export async function requireOtherRoot(tx: EntityManager, user: User, what: string): Promise<void> {
  if (!user.isRootUser) return;
  const { accountId, userId } = user;
  const others = { accountId, userId: { $ne: userId }, isRootUser: true, status: 'enabled' as const };
  if ((await tx.count(User, others)) > 0) return;
  throw new AppError('last_root_user', `The last enabled root user of an account cannot be ${what}`);
}

function requireAdmin(by: { role: User['role'] }): void {
  if (by.role !== 'admin') throw new AppError('admin_required', 'Only an admin can grant or revoke the role admin');
}
