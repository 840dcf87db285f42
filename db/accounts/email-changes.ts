import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { emailKey } from '../../domain/accounts/email-address.ts';
import { type EmailSide, emailChangeSeconds } from '../../domain/accounts/email-change.ts';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { requestSignal, requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type Scope, scopeTransaction } from '../core/scope.ts';
import { Account } from './account.entity.ts';
import { recordAudit } from './audit-events.ts';

/** The workflow of the previous change needs a moment to close after its row says that the change has ended. */
const closingSeconds = 10;

/**
 * Begins a change of the account's e-mail address: a workflow mails a link to both addresses.
 * @throws {AppError} `email_mismatch`, `email_not_changed`, `email_taken`, `email_change_pending`
 */
export async function requestEmailChange(
  em: EntityManager,
  by: { accountId: AccountId; userId: UserId },
  asked: { currentEmail: string; newEmail: string },
): Promise<void> {
  const { accountId } = by;
  await scopeTransaction(em, { rows: 'account', accountId }, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const account = await tx.findOneOrFail(Account, { accountId });
    if (emailKey(account.email) !== emailKey(asked.currentEmail)) {
      throw new AppError('email_mismatch', "The current e-mail is not the account's e-mail");
    }
    if (emailKey(account.email) === emailKey(asked.newEmail)) {
      throw new AppError('email_not_changed', 'The new e-mail must differ from the current one');
    }
    await requireFree(tx, accountId, asked.newEmail);
    await requireNoRecentChange(tx, accountId);
    const changeId = newId('emailChange');
    await query(
      tx,
      `insert into email_changes (change_id, account_id, requested_by, current_email, new_email, expires_at)
       values (?, ?, ?, ?, ?, now() + interval '${emailChangeSeconds} seconds')`,
      [changeId, accountId, by.userId, account.email, asked.newEmail],
    );
    requestStart(tx, 'emailChange', accountId, { accountId, changeId });
    const [before, after] = [{ email: account.email }, { email: asked.newEmail }];
    await recordAudit(tx, { accountId, objectId: accountId, before, after });
  });
}

async function requireFree(tx: EntityManager, accountId: AccountId, email: string): Promise<void> {
  const taken = await query(
    tx,
    `select 1 from users where lower(email) = ?
     union all select 1 from accounts where lower(email) = ? and account_id <> ? limit 1`,
    [emailKey(email), emailKey(email), accountId],
  );
  if (taken.length > 0)
    throw new AppError('email_taken', 'A user or an account with this e-mail address already exists');
}

async function requireNoRecentChange(tx: EntityManager, accountId: AccountId): Promise<void> {
  const [row] = await query<{ seconds: string | null }>(
    tx,
    `select extract(epoch from max(greatest(
              created_at + interval '${emailChangeSeconds} seconds',
              ended_at + interval '${closingSeconds} seconds',
              case when status = 'pending' then now() + interval '1 minute' end)) - now()) as seconds
       from email_changes where account_id = ?`,
    [accountId],
  );
  const seconds = Number(row?.seconds ?? 0);
  if (seconds <= 0) return;
  const minutes = Math.min(emailChangeSeconds / 60, Math.ceil(seconds / 60));
  throw new AppError('email_change_pending', `You can request another change in ${minutes} min`, {
    data: { time_remaining_minutes: minutes },
  });
}

/** The state of the newest change of an account. */
export async function findEmailChangeStatus(
  em: EntityManager,
  accountId: AccountId,
): Promise<{ isPending: boolean; confirmations: 0 | 1 | 2 }> {
  const [row] = await query<{ is_pending: boolean; status: string; is_begun: boolean }>(
    em.fork(),
    `select status = 'pending' and expires_at > now() as is_pending, status,
            (current_confirmed_at is not null or new_confirmed_at is not null) as is_begun
       from email_changes where account_id = ? order by created_at desc limit 1`,
    [accountId],
  );
  if (row?.status === 'completed') return { isPending: false, confirmations: 2 };
  const isPending = row?.is_pending ?? false;
  return { isPending, confirmations: isPending && row!.is_begun ? 1 : 0 };
}

/**
 * Ends pending changes. Their links no longer work. A user who is not root ends only their own changes. @returns their
 * number
 */
export async function clearEmailChanges(em: EntityManager, scope: Scope & { accountId: AccountId }): Promise<number> {
  return scopeTransaction(em, scope, async (tx) => {
    await lockRow(tx, 'accounts', scope.accountId);
    const rows = await query<{ change_id: string }>(
      tx,
      `update email_changes set status = 'cleared', ended_at = now() where account_id = ? and status = 'pending'
         and (?::text is null or requested_by = ?) returning change_id`,
      [scope.accountId, ...(scope.rows === 'user' ? [scope.userId, scope.userId] : [null, null])],
    );
    for (const { change_id: changeId } of rows) {
      requestSignal(tx, 'emailChange', scope.accountId, 'emailChangeEnded', { changeId });
    }
    return rows.length;
  });
}

const hashToken = (token: string) => createHash('sha256').update(token).digest('hex');
const columns = { current: 'current', new: 'new' } as const satisfies Record<EmailSide, string>;

/**
 * Confirms a change for the address to which the token was mailed. The second confirmation changes the e-mail address
 * of the account, and of its user who had the old one.
 * @returns the address that still has to confirm; null when the change is complete
 * @throws {AppError} `invalid_link`, `email_taken`
 */
export async function confirmEmailChange(em: EntityManager, token: string): Promise<{ pendingEmail: string | null }> {
  const hash = hashToken(token);
  return em.fork().transactional(async (tx) => {
    const [change] = await query<ChangeRow>(
      tx,
      `select change_id, account_id, current_email, new_email, current_token_hash, current_confirmed_at, new_confirmed_at
         from email_changes where (current_token_hash = ? or new_token_hash = ?)
         and status = 'pending' and expires_at > now() for update`,
      [hash, hash],
    );
    const side: EmailSide = change?.current_token_hash === hash ? 'current' : 'new';
    if (!change || change[`${side}_confirmed_at`] !== null) {
      throw new AppError('invalid_link', 'The link is not valid: it was already used, has expired, or is incomplete');
    }
    const { change_id: changeId, account_id: accountId, current_email: from, new_email: to } = change;
    await query(tx, `update email_changes set ${columns[side]}_confirmed_at = now() where change_id = ?`, [changeId]);
    const other: EmailSide = side === 'current' ? 'new' : 'current';
    if (change[`${other}_confirmed_at`] === null) return { pendingEmail: other === 'new' ? to : from };
    await requireFree(tx, accountId, to);
    await tx.nativeUpdate(Account, { accountId }, { email: to, isVerified: true, updatedAt: new Date() });
    await query(
      tx,
      `update users set email = ?, email_verified = true, updated_at = now() where account_id = ? and lower(email) = ?`,
      [to, accountId, emailKey(from)],
    );
    await query(tx, "update email_changes set status = 'completed', ended_at = now() where change_id = ?", [changeId]);
    requestSignal(tx, 'emailChange', accountId, 'emailChangeEnded', { changeId });
    const [before, after] = [{ email: from }, { email: to }];
    await recordAudit(tx, { accountId, objectId: accountId, before, after, action: 'confirmEmailChange' });
    return { pendingEmail: null };
  });
}

interface ChangeRow {
  change_id: string;
  account_id: AccountId;
  current_email: string;
  new_email: string;
  current_token_hash: string | null;
  current_confirmed_at: string | null;
  new_confirmed_at: string | null;
}

/**
 * Stores the token of one of the links. Storing it again changes nothing.
 * @returns the facts for the mail; null when the change has ended, or the link was used
 */
export async function addEmailChangeToken(
  em: EntityManager,
  link: { changeId: string; side: EmailSide; token: string },
): Promise<{ to: string; currentEmail: string; newEmail: string; expiresAt: Date } | null> {
  const side = columns[link.side];
  const [row] = await query<{ current_email: string; new_email: string; expires_at: string }>(
    em.fork(),
    `update email_changes set ${side}_token_hash = ?
      where change_id = ? and status = 'pending' and expires_at > now() and ${side}_confirmed_at is null
      returning current_email, new_email, expires_at`,
    [hashToken(link.token), link.changeId],
  );
  if (!row) return null;
  const { current_email: currentEmail, new_email: newEmail } = row;
  return {
    to: link.side === 'current' ? currentEmail : newEmail,
    currentEmail,
    newEmail,
    expiresAt: new Date(row.expires_at),
  };
}

/** The expiry of a change's links. Null: the change does not exist or has ended. */
export async function findEmailChangeEnd(em: EntityManager, changeId: string): Promise<number | null> {
  const [row] = await query<{ expires_at: string }>(
    em.fork(),
    "select expires_at from email_changes where change_id = ? and status = 'pending'",
    [changeId],
  );
  return row ? new Date(row.expires_at).getTime() : null;
}

export async function expireEmailChange(em: EntityManager, changeId: string): Promise<void> {
  await query(
    em.fork(),
    "update email_changes set status = 'expired', ended_at = now() where change_id = ? and status = 'pending'",
    [changeId],
  );
}
