import type { EntityManager } from '@mikro-orm/postgresql';
import { Account } from '../../../db/accounts/account.entity.ts';
import { createApiKey } from '../../../db/accounts/api-keys.ts';
import { recordAudit } from '../../../db/accounts/audit-events.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { findUserOrRoot } from '../../../db/accounts/users.ts';
import { findSubscription } from '../../../db/billing/subscriptions.ts';
import { newId } from '../../../db/core/new-id.ts';
import { planHeldBy } from '../../../domain/billing/plans.ts';
import type { AccountId, UserId } from '../../../domain/ids.ts';
import { checkApiKeyName } from '../../../domain/names.ts';
import {
  type OperatorCommand,
  OperatorError,
  optional,
  requireAccount,
  text,
  type Values,
} from './operator-command.ts';

/**
 * `create-api-key`: makes the first key of a new platform, or a key for an account whose keys are lost, or for a
 * service of the operator.
 */
export const createApiKeyCommand: OperatorCommand = {
  usage: '[--account acc-…] [--email E] [--name N]',
  does: 'Makes an API key for the root user of an account, or for another of its users; shown once. With only one account, --account is optional',
  options: { account: text, email: text, name: text },
  async run(database, values) {
    const { orm, plans } = database;
    const em = orm.em.fork();
    const account = await accountFor(em, values);
    const { accountId } = account;
    const user = await em.findOneOrFail(User, { accountId, userId: await findOwner(em, accountId, values) });
    if (user.status !== 'enabled') throw new OperatorError(`${user.email} is disabled`);
    const name = checkApiKeyName(optional(values, 'name') ?? `operator-${new Date().toISOString().slice(0, 10)}`);
    const owner = { accountId, userId: user.userId };
    const keyId = newId('apiKey');
    return em.transactional(async (tx) => {
      const bought = await findSubscription(tx, accountId);
      const plan = planHeldBy({ planName: account.planName, boughtPlan: bought?.plan ?? null }, plans);
      const description = 'By the operator of the platform';
      const { key, secret } = await createApiKey(tx, owner, { keyId, name, description }, plan.maxActiveApiKeys);
      const after = { user_id: user.userId, name, description, is_active: true };
      await recordAudit(tx, { accountId, objectId: keyId, before: null, after });
      return { keyId, accountId, userId: user.userId, email: user.email, name: key.name, apiKey: secret };
    });
  },
};

/** The account with the given id, or else the only account. */
async function accountFor(em: EntityManager, values: Values): Promise<Account> {
  if (optional(values, 'account') !== undefined) {
    const accountId = requireAccount(values);
    const account = await em.findOne(Account, { accountId });
    if (!account) throw new OperatorError(`There is no account ${accountId}`);
    return account;
  }
  const [first, second] = await em.find(Account, {}, { limit: 2, orderBy: { accountId: 'asc' } });
  if (!first) throw new OperatorError('There is no account: run db/migrate.ts first');
  if (second) throw new OperatorError('--account is missing, and there are several accounts: see list-accounts');
  return first;
}

/** The user with the given e-mail address, or else the oldest enabled root user of the account. */
async function findOwner(em: EntityManager, accountId: AccountId, values: Values): Promise<UserId> {
  const email = optional(values, 'email');
  const found = await findUserOrRoot(em, accountId, email ?? null);
  if (found) return found;
  throw new OperatorError(email ? `${accountId} has no user ${email}` : `${accountId} has no root user`);
}
