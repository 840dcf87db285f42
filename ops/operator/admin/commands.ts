import { randomBytes } from 'node:crypto';
import { LockMode } from '@mikro-orm/postgresql';
import { Account } from '../../../db/accounts/account.entity.ts';
import { addAccountLink } from '../../../db/accounts/account-links.ts';
import { setAccountStatus } from '../../../db/accounts/account-settings.ts';
import { createAccount } from '../../../db/accounts/accounts.ts';
import { lockAdmins, requireAnAdmin } from '../../../db/accounts/admins.ts';
import { recordAudit } from '../../../db/accounts/audit-events.ts';
import { findResettableUser } from '../../../db/accounts/passwords.ts';
import { rotateTokenKeys } from '../../../db/accounts/token-keys.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { findUserByEmail } from '../../../db/accounts/users.ts';
import { changeCredit, readBalance } from '../../../db/billing/ledger.ts';
import { readLastReconciliation } from '../../../db/billing/reconciliations.ts';
import { setTaxRate, startBilling } from '../../../db/billing/subscriptions.ts';
import { constraintError } from '../../../db/core/constraint-errors.ts';
import { newId } from '../../../db/core/new-id.ts';
import { listDeadEntries } from '../../../db/core/outbox.ts';
import { retryDeadLetters } from '../../../db/upkeep/dead-letters.ts';
import { readEmailAddress } from '../../../domain/accounts/email-address.ts';
import { passwordResetSeconds } from '../../../domain/accounts/password-reset.ts';
import { compare, isPositive, readAmount, readDecimal } from '../../../domain/billing/money.ts';
import { type AccountId, isId } from '../../../domain/ids.ts';
import { PaymentProcessor } from '../../../integrations/payments/processor.ts';
import { refundCharge } from '../../../integrations/payments/refund-charge.ts';
import { accountPageUrl } from '../../../platform/config/public-urls.ts';
import { backupCommands } from './backup-commands.ts';
import { createApiKeyCommand } from './create-api-key.ts';
import type { PlatformDatabase } from './database.ts';
import { hostCommands } from './host-commands.ts';
import {
  type OperatorCommand,
  OperatorError,
  optional,
  requireAccount,
  required,
  text,
  type Values,
} from './operator-command.ts';
import { rotateSecretKeyCommand } from './secret-key-command.ts';
import { workerVersionCommands } from './worker-version-commands.ts';

/** Of a list, as many as a person reads. */
const oldest = { sortBy: 'created_at', sortOrder: 'asc', limit: 1000, offset: 0, after: null } as const;

/** Every operator command, by name. */
export const commands: Record<string, OperatorCommand> = {
  'create-account': {
    usage: '--email E [--name N] [--plan P] [--admin]',
    does: 'Makes an account with a root user, a default project and an API key',
    options: { email: text, name: text, plan: text, admin: { type: 'boolean' } },
    async run({ orm, plans }, values) {
      const given = required(values, 'email');
      const email = readEmailAddress(given);
      if (email === null) throw new OperatorError(`${given} is not an e-mail address`);
      const planName = optional(values, 'plan') ?? plans.all[0]!.planName;
      if (!plans.all.some((plan) => plan.planName === planName)) {
        throw new OperatorError(
          `There is no plan ${planName}; plans are ${plans.all.map((plan) => plan.planName).join(', ')}`,
        );
      }
      const wanted = {
        email,
        planName,
        displayName: optional(values, 'name') ?? email,
        role: values.admin ? ('admin' as const) : ('user' as const),
      };
      try {
        return await orm.em.fork().transactional(async (em) => {
          const made = await createAccount(em, wanted, plans);
          const { accountId } = made;
          startBilling(em, accountId);
          const after = { email, display_name: wanted.displayName, plan_name: planName, role: wanted.role };
          await recordAudit(em, { accountId, objectId: accountId, before: null, after });
          return made;
        });
      } catch (error) {
        if (constraintError(error)?.code === 'email_taken') throw new OperatorError(`${email} is already in use`);
        throw error;
      }
    },
  },

  'create-api-key': createApiKeyCommand,

  'list-accounts': {
    usage: '',
    does: 'All accounts, oldest first',
    options: {},
    run: ({ orm }) =>
      orm.em.fork().find(
        Account,
        {},
        {
          orderBy: { createdAt: 'asc' },
          fields: ['accountId', 'email', 'displayName', 'planName', 'status', 'createdAt'],
        },
      ),
  },

  'suspend-account': {
    usage: '--account acc-…',
    does: 'Suspends an account: its users can read but not change or create',
    options: { account: text },
    run: (database, values) => setStatus(database, requireAccount(values), 'suspended'),
  },

  'reopen-account': {
    usage: '--account acc-…',
    does: 'Ends a suspension',
    options: { account: text },
    run: (database, values) => setStatus(database, requireAccount(values), 'active'),
  },

  'reset-password': {
    usage: '--email E',
    does: 'Prints a link to set a new password; it works once, for 30 minutes',
    options: { email: text },
    run: (database, values) => makeResetLink(database, required(values, 'email')),
  },

  'rotate-token-keys': {
    usage: '[--end-sessions]',
    does: 'Signs access tokens with a new key; ends all sessions where asked to',
    options: { 'end-sessions': { type: 'boolean' } },
    run: ({ orm }, values) =>
      orm.em.fork().transactional(async (em) => {
        const rotated = await rotateTokenKeys(em, { endSessions: values['end-sessions'] === true });
        const after = { ended_sessions: rotated.endedSessions };
        await recordAudit(em, { accountId: null, objectId: rotated.keyId, before: null, after });
        return rotated;
      }),
  },

  'rotate-secret-key': rotateSecretKeyCommand,

  'grant-admin': {
    usage: '--email E',
    does: 'Makes a user an operator across accounts',
    options: { email: text },
    run: (database, values) => setRole(database, required(values, 'email'), 'admin'),
  },

  'revoke-admin': {
    usage: '--email E',
    does: 'Makes an operator an ordinary user',
    options: { email: text },
    run: (database, values) => setRole(database, required(values, 'email'), 'user'),
  },

  'grant-credit': {
    usage: '--account acc-… --amount 25.00 [--description D]',
    does: "Adds to an account's balance, which pays for invoices",
    options: { account: text, amount: text, description: text },
    run: (database, values) => moveCredit(database, values, 'grant'),
  },

  'list-differences': {
    usage: '',
    does: 'Prints the result of the last nightly comparison of ledger, invoices, charges and payment processor',
    options: {},
    run: ({ orm }) => readLastReconciliation(orm.em),
  },

  'refund-credit': {
    usage: '--account acc-… --amount 25.00 [--description D]',
    does: 'Removes unused credit that you pay out outside of the platform',
    options: { account: text, amount: text, description: text },
    run: (database, values) => moveCredit(database, values, 'refund'),
  },

  'set-tax-rate': {
    usage: '--account acc-… --rate 0.19',
    does: 'The tax on invoices that are issued from now on: 0.19 is 19 %',
    options: { account: text, rate: text },
    async run({ orm }, values) {
      const accountId = requireAccount(values);
      const given = required(values, 'rate');
      const rate = readDecimal(given, 6);
      if (rate === null || compare(rate, '1') > 0) throw new OperatorError(`${given} is not a rate from 0 to 1`);
      const isSet = await orm.em.fork().transactional((em) => setTaxRate(em, accountId, rate));
      if (!isSet) throw new OperatorError(`There is no account ${accountId}`);
      return { accountId, taxRate: rate };
    },
  },

  ...hostCommands,

  ...workerVersionCommands,

  ...backupCommands,
  'refund-charge': {
    usage: '--charge pi_… [--amount 5.00] [--description D] [--refund prf-…]',
    does: 'Refunds a charge, or a part of it; with --refund, retries a refund whose outcome is not known',
    options: { charge: text, amount: text, description: text, refund: text },
    run: giveChargeBack,
  },

  'list-dead-letters': {
    usage: '',
    does: 'Lists workflow starts and signals that failed too often, with the last error',
    options: {},
    run: async ({ orm }) => (await listDeadEntries(orm.em, oldest)).entries,
  },

  'retry-dead-letters': {
    usage: '[--id N]',
    does: 'Retries all dead letters, or one',
    options: { id: text },
    async run({ orm }, values) {
      const id = optional(values, 'id') ?? null;
      if (id !== null && !/^\d{1,18}$/.test(id)) throw new OperatorError(`${id} is not the id of an entry`);
      const retried = await retryDeadLetters(orm.em, id);
      if (id !== null && retried === 0) throw new OperatorError(`There is no dead letter ${id}`);
      return { retried };
    },
  },
};

async function moveCredit({ orm, plans }: PlatformDatabase, values: Values, action: 'grant' | 'refund') {
  const accountId = requireAccount(values);
  const given = required(values, 'amount');
  const { currency } = plans;
  const amount = readAmount(given, currency);
  if (amount === null || !isPositive(amount)) throw new OperatorError(`${given} is not an amount of ${currency}`);
  const transactionId = newId('ledgerTransaction');
  const description = optional(values, 'description') ?? 'By the operator of the platform';
  await changeCredit(orm.em, { transactionId, accountId, action, amount, currency, description });
  const balance = await readBalance(orm.em.fork(), accountId, currency);
  return { transactionId, accountId, balance, currency };
}

async function giveChargeBack({ orm, plans, settings }: PlatformDatabase, values: Values) {
  const processor = PaymentProcessor.of(settings);
  if (!processor) throw new OperatorError('This platform has no payment processor');
  const paymentIntentId = required(values, 'charge');
  const given = optional(values, 'amount');
  const amount = given === undefined ? null : readAmount(given, plans.currency);
  if (given !== undefined && (amount === null || !isPositive(amount))) {
    throw new OperatorError(`${given} is not an amount of ${plans.currency}`);
  }
  const refundId = optional(values, 'refund') ?? newId('paymentRefund');
  if (!isId('paymentRefund', refundId)) throw new OperatorError(`${refundId} is not the id of a refund`);
  const description = optional(values, 'description') ?? 'By the operator of the platform';
  return refundCharge({ orm, processor }, { refundId, paymentIntentId, amount, description });
}

async function makeResetLink({ orm, settings }: PlatformDatabase, email: string) {
  const user = await findResettableUser(orm.em, { email });
  if (!user) throw new OperatorError(`There is no enabled user ${email} with a password of their own`);
  const { userId, accountId } = user;
  const token = randomBytes(32).toString('base64url');
  const expiresAt = new Date(Date.now() + passwordResetSeconds * 1000);
  await orm.em.fork().transactional(async (em) => {
    // The operator passes the link on, so its use proves nothing about who reads the user's mail.
    await addAccountLink(em, { token, purpose: 'password-reset', userId, provesEmail: false, expiresAt });
    await recordAudit(em, { accountId, objectId: userId, before: null, after: null });
  });
  return { link: accountPageUrl(settings, 'reset-password', { token }), expiresAt };
}

async function setStatus({ orm }: PlatformDatabase, accountId: AccountId, status: Account['status']) {
  if (!(await setAccountStatus(orm.em, accountId, status))) throw new OperatorError(`There is no account ${accountId}`);
  return { accountId, status };
}

function setRole({ orm }: PlatformDatabase, given: string, role: User['role']) {
  return orm.em.fork().transactional(async (em) => {
    if (role !== 'admin') await lockAdmins(em);
    const found = await findUserByEmail(em, given);
    if (!found) throw new OperatorError(`There is no user ${given}`);
    const user = await em.findOneOrFail(User, { userId: found }, { lockMode: LockMode.PESSIMISTIC_WRITE });
    const { accountId, userId, role: before } = user;
    user.role = role;
    await em.flush();
    if (role !== 'admin' && before === 'admin') await requireAnAdmin(em);
    await recordAudit(em, { accountId, objectId: userId, before: { role: before }, after: { role } });
    return { email: user.email, role };
  });
}
