import { createHash, randomBytes } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { emailKey, readEmailAddress } from '../../domain/accounts/email-address.ts';
import { knownAddressHash } from '../../domain/accounts/sign-in-throttle.ts';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { maxDisplayName, usernamePattern, whyNoName } from '../../domain/names.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';
import { Account } from './account.entity.ts';
import { type AuditedFields, insertAuditEvent } from './audit-events.ts';
import { type StartedSession, startIdentitySession } from './sign-ins.ts';
import { User } from './user.entity.ts';
import { addUser, auditedFields } from './user-management.ts';

/** An identity according to a provider. Its issuer and subject never change; other fields may. */
export interface ProvenIdentity {
  issuer: string;
  subject: string;
  email: string | null;
  isEmailVerified: boolean;
  name: string | null;
  username: string | null;
  /** An https address. */
  pictureUrl: string | null;
}

/** The users that an issuer may sign in. */
export interface AdmissionByIssuer {
  accountId: AccountId;
  emailDomains: readonly string[];
  createsUsers: boolean;
}

/** The facts about the request that ends a sign-in, for the audit log and the throttles. */
export interface IdentitySignInRequest {
  address: string;
  requestId: string;
  action: string;
  clientKey: string;
  /** The request counts as a failure of its address until it has succeeded. */
  isCounted: boolean;
}

/**
 * Marks a sign-in as finished. Of concurrent attempts with the same state, on all replicas, one succeeds.
 * @returns false when it was finished before
 */
export async function takeSignInState(em: EntityManager, state: string, keptSeconds: number): Promise<boolean> {
  const rows = await query(
    em.fork(),
    `insert into used_sign_in_states (state_hash, expires_at) values (?, now() + ?::int * interval '1 second')
     on conflict do nothing returning 1`,
    [createHash('sha256').update(state).digest('hex'), keptSeconds],
  );
  return rows.length > 0;
}

/** Whether a user of the account with an identity has recently signed in from the address. */
export async function isAddressOfIdentities(
  em: EntityManager,
  accountId: AccountId,
  address: string,
): Promise<boolean> {
  const rows = await query(
    em.fork(),
    `select 1 from known_addresses k join users u using (user_id)
      where k.address_hash = ? and u.account_id = ? and u.oauth_provider is not null limit 1`,
    [knownAddressHash(address), accountId],
  );
  return rows.length > 0;
}

/**
 * Begins a session of the user with this identity. On the first sign-in, the identity is added to an invited user, or
 * to a new user if the issuer may create users. It is never added to a user with a password.
 * @throws {AppError} `email_not_verified`, `email_domain_not_allowed`, `not_invited`, `email_taken`, `user_disabled`,
 * `account_suspended`, `user_limit_reached`
 */
export function signInByIdentity(
  em: EntityManager,
  identity: ProvenIdentity,
  admission: AdmissionByIssuer,
  request: IdentitySignInRequest,
): Promise<{ userId: UserId; session: StartedSession }> {
  return accountTransaction(em.fork(), admission.accountId, async (tx) => {
    const known = await findByIdentity(tx, identity);
    const { user, before, after } = known ? unchanged(known) : await firstSignIn(tx, identity, admission, request);
    if (user.accountId !== admission.accountId) throw ofAnotherAccount();
    await requireActive(tx, user);
    tx.assign(user, { avatarUrl: identity.pictureUrl });
    await tx.flush();
    const { userId, accountId } = user;
    const proven = { userId, passwordHash: user.passwordHash ?? null };
    const { clientKey: address, isCounted } = request;
    const session = await startIdentitySession(tx, proven, { address, isCounted });
    if (!session) throw disabled();
    const { sessionId } = session;
    await insertAuditEvent(
      tx,
      { ...request, accountId, userId, keyId: null, sessionId, isRecorded: true },
      { accountId, objectId: userId, before, after },
    );
    return { userId, session };
  });
}

function findByIdentity(tx: EntityManager, { issuer, subject }: ProvenIdentity): Promise<User | null> {
  return tx.findOne(User, { oauthProvider: issuer, oauthProviderId: subject });
}

/** The user who signs in, and the changes of that user. */
interface SigningIn {
  user: User;
  before: AuditedFields | null;
  after: AuditedFields | null;
}

const unchanged = (user: User): SigningIn => ({ user, before: null, after: null });

async function firstSignIn(
  tx: EntityManager,
  identity: ProvenIdentity,
  admission: AdmissionByIssuer,
  request: IdentitySignInRequest,
): Promise<SigningIn> {
  const email = requireAllowedEmail(identity, admission);
  const { accountId } = admission;
  await lockRow(tx, 'accounts', accountId);
  // Another sign-in of the same person may have been faster.
  const known = await findByIdentity(tx, identity);
  if (known) return unchanged(known);
  const found = await findByEmail(tx, email);
  const isReserved = found && (found.accountId === accountId || found.emailVerified);
  if (isReserved) return join(tx, found, identity, admission);
  if (!admission.createsUsers) throw notInvited();
  if (!(await tx.count(Account, { accountId, status: 'active' }))) throw suspended();
  if (found) await releaseAddress(tx, found, request);
  const user = await create(tx, email, identity, accountId);
  return { user, before: null, after: { ...auditedFields(user), ...identityFields(user) } };
}

/** @throws {AppError} `email_not_verified`, `email_domain_not_allowed` */
function requireAllowedEmail(identity: ProvenIdentity, { emailDomains }: AdmissionByIssuer): string {
  if (!identity.isEmailVerified || identity.email === null) {
    throw new AppError('email_not_verified', 'The identity provider does not report your e-mail address as verified');
  }
  const email = readEmailAddress(identity.email);
  if (email === null || !emailDomains.includes(email.split('@')[1]!)) {
    throw new AppError(
      'email_domain_not_allowed',
      'Users with your e-mail address cannot sign in through this identity provider',
    );
  }
  return email;
}

async function findByEmail(tx: EntityManager, email: string): Promise<User | null> {
  const [row] = await query<{ user_id: UserId }>(tx, 'select user_id from users where lower(email) = ? for update', [
    emailKey(email),
  ]);
  return row ? tx.findOneOrFail(User, { userId: row.user_id }, { refresh: true }) : null;
}

/**
 * Takes an address that was never verified from a user of another account, for the person who has proven it. The user
 * keeps everything else. Nothing is ever mailed to the address that replaces it (RFC 2606).
 */
async function releaseAddress(tx: EntityManager, user: User, request: IdentitySignInRequest): Promise<void> {
  const { accountId, userId, email } = user;
  const replacement = `${userId}@unverified.invalid`;
  tx.assign(user, { email: replacement });
  await tx.flush();
  // The account does not learn who has proven the address.
  const actor = { address: '', userId: null, keyId: null, sessionId: null, isRecorded: true };
  const { requestId, action } = request;
  await insertAuditEvent(
    tx,
    { ...actor, requestId, action, accountId },
    { accountId, objectId: userId, before: { email }, after: { email: replacement } },
  );
}

/** Adds the identity to an invited user who has not signed in yet. */
async function join(
  tx: EntityManager,
  user: User,
  identity: ProvenIdentity,
  { accountId }: AdmissionByIssuer,
): Promise<SigningIn> {
  const isInvited = user.accountId === accountId && !user.passwordHash && !user.oauthProvider;
  if (!isInvited) {
    throw new AppError('email_taken', 'A user with your e-mail address already exists and signs in in another way');
  }
  await requireActive(tx, user);
  const before = identityFields(user);
  tx.assign(user, { oauthProvider: identity.issuer, oauthProviderId: identity.subject, emailVerified: true });
  await tx.flush();
  return { user, before, after: identityFields(user) };
}

async function create(tx: EntityManager, email: string, identity: ProvenIdentity, accountId: AccountId): Promise<User> {
  const userId = newId('user');
  const username = await freeUsername(tx, accountId, [identity.username, email.split('@')[0]!]);
  const name = identity.name?.trim() ?? '';
  await addUser(tx, accountId, {
    userId,
    email,
    username,
    displayName: whyNoName(name, maxDisplayName) === null ? name : username,
    description: '',
    role: 'user',
    status: 'enabled',
    passwordHash: null,
    oauthProvider: identity.issuer,
    oauthProviderId: identity.subject,
    emailVerified: true,
  });
  return tx.findOneOrFail(User, { userId });
}

/** The first valid name of `wanted` that no other user of the account has. The caller has locked the account. */
async function freeUsername(
  tx: EntityManager,
  accountId: AccountId,
  wanted: readonly (string | null)[],
): Promise<string> {
  const names = wanted
    .map((name) =>
      (name ?? '')
        .replaceAll(/[^A-Za-z0-9._@+-]/g, '-')
        .replace(/^[^A-Za-z0-9]+/, '')
        .slice(0, 50),
    )
    .filter((name) => new RegExp(usernamePattern).test(name));
  const numbered = `${names.at(-1) ?? 'user'}-${randomBytes(4).toString('hex')}`;
  for (const name of [...names, numbered]) {
    const taken = await query(tx, 'select 1 from users where account_id = ? and lower(username) = lower(?)', [
      accountId,
      name,
    ]);
    if (taken.length === 0) return name;
  }
  return newId('user');
}

/** @throws {AppError} `user_disabled`, `account_suspended` */
async function requireActive(tx: EntityManager, user: User): Promise<void> {
  if (user.status !== 'enabled') throw disabled();
  if (!(await tx.count(Account, { accountId: user.accountId, status: 'active' }))) throw suspended();
}

function identityFields(user: User): AuditedFields {
  return {
    email_verified: user.emailVerified,
    oauth_provider: user.oauthProvider ?? null,
    oauth_provider_id: user.oauthProviderId ?? null,
  };
}

const notInvited = () =>
  new AppError(
    'not_invited',
    'You have no user on this platform yet; ask a root user of your account for an invitation',
  );
const ofAnotherAccount = () =>
  new AppError('not_invited', 'You are not a user of the account of this identity provider');
const disabled = () => new AppError('user_disabled', 'Your user is disabled; ask a root user of your account');
const suspended = () => new AppError('account_suspended', 'The account is suspended');
