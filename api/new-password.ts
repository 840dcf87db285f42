import { setTimeout as delay } from 'node:timers/promises';
import { findAccountLink } from '../db/accounts/account-links.ts';
import { changePassword, findResettableUser, resetPassword } from '../db/accounts/passwords.ts';
import { countSignIn, findSignIn, forgiveSignIn } from '../db/accounts/sign-ins.ts';
import { findProfile } from '../db/accounts/users.ts';
import { requestStart } from '../db/core/outbox.ts';
import { emailKey, readEmailAddress } from '../domain/accounts/email-address.ts';
import { checkNewPassword } from '../domain/accounts/password-rules.ts';
import { clientKey } from '../domain/client-address.ts';
import { AppError } from '../domain/errors.ts';
import type { UserId } from '../domain/ids.ts';
import type { ApiDependencies } from './dependencies.ts';
import { requireNoWait } from './sign-in.ts';

/** Every request takes this long, so that its duration does not reveal whether a user has the e-mail address. */
const requestTakesMs = 300;

/** Mails a link to set a new password to the user with this e-mail address, if there is one. */
export async function requestResetByEmail(deps: ApiDependencies, text: string): Promise<void> {
  await Promise.all([startResetOf(deps, readEmailAddress(text)), delay(requestTakesMs)]);
}

async function startResetOf(deps: ApiDependencies, email: string | null): Promise<void> {
  const user = email && (await findResettableUser(deps.orm.em, { email }));
  if (!user) return;
  const em = deps.orm.em.fork();
  requestStart(em, 'passwordReset', user.userId, user);
  await em.flush();
}

/**
 * Sets the password of the user of a mailed link, and invalidates the link.
 * @throws {AppError} `invalid_link`, `weak_password`, `password_not_changed`, `temporarily_unavailable`
 */
export async function setPasswordByLink(
  deps: ApiDependencies,
  { token, password, address }: { token: string; password: string; address: string },
): Promise<void> {
  const user = await findAccountLink(deps.orm.em, token, 'password-reset');
  if (!user) throw invalidLink();
  checkNewPassword(password, 'new_password', [user.email, user.username]);
  if (user.passwordHash && (await deps.passwords.verify(user.passwordHash, password))) throw notChanged();
  const passwordHash = await deps.passwords.hash(password);
  const userId = await resetPassword(deps.orm.em, { token, passwordHash, address: clientKey(address) });
  if (userId === null) throw invalidLink();
  deps.passwordResets.passwordWasSet(userId);
}

/**
 * Changes the password of a user who knows the current one. A wrong current password counts as a failed sign-in, so
 * that the holder of a stolen API key cannot guess it quickly.
 * @throws {AppError} `no_local_password`, `weak_password`, `wrong_password`, `password_not_changed`,
 * `too_many_sign_ins`, `temporarily_unavailable`
 */
export async function changeOwnPassword(
  deps: ApiDependencies,
  change: { userId: UserId; current: string; next: string; address: string },
): Promise<void> {
  const { em } = deps.orm;
  const address = clientKey(change.address);
  const { user } = await findProfile(em.fork(), change.userId);
  if (!user.passwordHash) throw new AppError('no_local_password', 'This user has no password on this platform');
  checkNewPassword(change.next, 'new_password', [user.email, user.username]);
  const attempt = { email: emailKey(user.email), address };
  requireNoWait(await countSignIn(em, attempt, await findSignIn(em, attempt)));
  if (!(await deps.passwords.verify(user.passwordHash, change.current))) throw wrongPassword();
  await forgiveSignIn(em, attempt);
  if (change.next.normalize('NFC') === change.current.normalize('NFC')) throw notChanged();
  const to = await deps.passwords.hash(change.next);
  const isChanged = await changePassword(em, { userId: user.userId, from: user.passwordHash, to, address });
  if (!isChanged) throw wrongPassword();
  deps.passwordResets.passwordWasSet(user.userId);
}

const invalidLink = () =>
  new AppError('invalid_link', 'The link is not valid: it was already used, has expired, or is incomplete');
const wrongPassword = () => new AppError('wrong_password', 'The current password is wrong');
const notChanged = () => new AppError('password_not_changed', 'The new password must differ from the current one');
