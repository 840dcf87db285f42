import type { EntityManager } from '@mikro-orm/postgresql';
import { maxMethods, maxOpenSetups, setupHours } from '../../domain/billing/payments.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { recordEvent } from '../core/events.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';
import { entitiesWithin, type Scope } from '../core/scope.ts';
import { hasUnpaidInvoice, signalPaymentPossible } from './billing-signals.ts';
import { PaymentMethod } from './payment-method.entity.ts';

/** The account's customer id at the payment processor. Null: it has none yet. */
export async function findCustomer(em: EntityManager, accountId: AccountId): Promise<string | null> {
  const [row] = await query<{
    customer_id: string;
  }>(em.fork(), 'select customer_id from payment_customers where account_id = ?', [accountId]);
  return row?.customer_id ?? null;
}

/** Stores the customer of an account. @returns the stored customer: of concurrent ones, the first */
export async function keepCustomer(em: EntityManager, accountId: AccountId, customerId: string): Promise<string> {
  await query(
    em.fork(),
    'insert into payment_customers (account_id, customer_id) values (?, ?) on conflict do nothing',
    [accountId, customerId],
  );
  return (await findCustomer(em, accountId))!;
}

/** @throws {AppError} `payment_method_limit_reached`, `too_many_requests` */
export async function requireMethodLimit(em: EntityManager, accountId: AccountId): Promise<void> {
  const [row] = await query<{ methods: number; setups: number }>(
    em.fork(),
    `select (select count(*)::int from payment_methods where account_id = ? and not is_deleted) as methods,
            (select count(*)::int from payment_setups s where s.account_id = ?
               and s.created_at > now() - interval '${setupHours} hours'
               and not exists (select 1 from payment_methods m where m.setup_intent_id = s.setup_intent_id)) as setups`,
    [accountId, accountId],
  );
  if (row!.methods >= maxMethods) {
    throw new AppError('payment_method_limit_reached', `An account has at most ${maxMethods} payment methods`);
  }
  if (row!.setups >= maxOpenSetups) {
    throw new AppError('too_many_requests', 'You began to add too many cards; try again later', {
      retryAfterSeconds: 3600,
    });
  }
}

/** Records which account began to add a card. */
export async function addSetup(em: EntityManager, accountId: AccountId, setupIntentId: string): Promise<void> {
  await query(
    em.fork(),
    'insert into payment_setups (setup_intent_id, account_id) values (?, ?) on conflict do nothing',
    [setupIntentId, accountId],
  );
}

/** The account that began to add a card, and its customer. Null: the setup is not one of this platform. */
export async function findSetup(
  em: EntityManager,
  setupIntentId: string,
): Promise<{ accountId: AccountId; customerId: string } | null> {
  const [row] = await query<{ account_id: AccountId; customer_id: string }>(
    em.fork(),
    'select account_id, customer_id from payment_setups join payment_customers using (account_id) where setup_intent_id = ?',
    [setupIntentId],
  );
  return row ? { accountId: row.account_id, customerId: row.customer_id } : null;
}

export function findMethodOfSetup(em: EntityManager, setupIntentId: string): Promise<PaymentMethod | null> {
  return em.fork().findOne(PaymentMethod, { setupIntentId });
}

/** The storable fields of a card. */
export type KeptMethod = Pick<
  PaymentMethod,
  | 'paymentMethodId'
  | 'type'
  | 'fingerprint'
  | 'last4'
  | 'expMonth'
  | 'expYear'
  | 'brand'
  | 'billingName'
  | 'billingEmail'
  | 'billingCountry'
>;

/**
 * Stores a card that the processor has verified. The first card of an account becomes its default, and so does one that
 * is added while an invoice could not be charged, because it is to be charged now. Storing it again changes nothing, so the processor's notification and the customer's request may arrive in any order or concurrently.
 */
export async function keepMethod(
  em: EntityManager,
  from: { accountId: AccountId; setupIntentId: string },
  method: KeptMethod,
): Promise<PaymentMethod> {
  const { accountId, setupIntentId } = from;
  return em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const { paymentMethodId } = method;
    const kept = await tx.findOne(PaymentMethod, { paymentMethodId });
    if (kept) return kept;
    const id = newId('paymentMethod');
    const hasDefault = (await tx.count(PaymentMethod, { accountId, isDefault: true, isDeleted: false })) > 0;
    const isDefault = !hasDefault || (await hasUnpaidInvoice(tx, accountId));
    if (hasDefault && isDefault) await clearDefault(tx, accountId, id);
    const verified = { isVerified: true, verifiedAt: new Date() };
    const made = tx.create(PaymentMethod, { ...method, id, accountId, setupIntentId, isDefault, ...verified });
    await tx.flush();
    await recordMethodEvent(tx, made, 'payment.method_attached');
    await signalPaymentPossible(tx, accountId);
    return made;
  });
}

function recordMethodEvent(tx: EntityManager, method: PaymentMethod, type: string) {
  const { id, accountId, paymentMethodId, brand, last4 } = method;
  return recordEvent(tx, { objectId: id, accountId, userId: null }, type, {
    ...{ account_id: accountId, id, payment_method_id: paymentMethodId, brand, last4 },
  });
}

/** Newest first. */
export function listMethods(em: EntityManager, scope: Scope): Promise<PaymentMethod[]> {
  const live = { ...accountWithin(scope), isDeleted: false };
  return em.fork().find(PaymentMethod, live, { orderBy: { createdAt: 'desc', id: 'asc' } });
}

/** A method that is not deleted. @param id ours, or the processor's @throws {AppError} `not_found` */
export async function readMethod(em: EntityManager, scope: Scope, id: string): Promise<PaymentMethod> {
  const named = { $or: [{ id }, { paymentMethodId: id }] };
  const method = await em.findOne(PaymentMethod, { ...accountWithin(scope), isDeleted: false, ...named });
  if (!method) throw notFound('Payment method');
  return method;
}

/** The payment method for charges of an account. Null: it has no verified one. */
export function findDefaultMethod(em: EntityManager, accountId: AccountId): Promise<PaymentMethod | null> {
  return em.fork().findOne(PaymentMethod, { accountId, isDefault: true, isDeleted: false, isVerified: true });
}

export async function hasMethods(em: EntityManager, accountId: AccountId): Promise<boolean> {
  return (await em.fork().count(PaymentMethod, { accountId, isDeleted: false, isVerified: true })) > 0;
}

/** No card of the account is its default any more, except one. */
async function clearDefault(tx: EntityManager, accountId: AccountId, except: string): Promise<void> {
  const others = { accountId, isDefault: true, id: { $ne: except } };
  await tx.nativeUpdate(PaymentMethod, others, { isDefault: false, updatedAt: new Date() });
}

/** @throws {AppError} `not_found`, `payment_method_not_usable` */
export function setDefaultMethod(em: EntityManager, accountId: AccountId, id: string): Promise<PaymentMethod> {
  return accountTransaction(em, accountId, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const method = await readMethod(tx, { rows: 'account', accountId }, id);
    if (!method.isVerified) throw new AppError('payment_method_not_usable', 'The payment method is not verified');
    await clearDefault(tx, accountId, method.id);
    method.isDefault = true;
    await signalPaymentPossible(tx, accountId);
    return method;
  });
}

/**
 * Marks a method as deleted, after the processor has forgotten it. If it was the default, the newest other one becomes
 * the default.
 */
export async function deleteMethod(em: EntityManager, paymentMethodId: string): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const found = await tx.findOne(PaymentMethod, { paymentMethodId });
    if (!found) return;
    await lockRow(tx, 'accounts', found.accountId);
    const method = await tx.refresh(found);
    if (!method || method.isDeleted) return;
    const { accountId, isDefault } = method;
    Object.assign(method, { isDeleted: true, isDefault: false });
    await tx.flush();
    if (isDefault) {
      const others = { accountId, isDeleted: false, isVerified: true };
      const next = await tx.findOne(PaymentMethod, others, { orderBy: { createdAt: 'desc' } });
      if (next) next.isDefault = true;
    }
    await recordMethodEvent(tx, method, 'payment.method_detached');
  });
}

function accountWithin(scope: Scope): { accountId?: AccountId } {
  const { accountId } = entitiesWithin(scope);
  return accountId === undefined ? {} : { accountId };
}
