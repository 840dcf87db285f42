import { z } from 'zod';
import {
  type BalanceChange,
  changeCredit,
  findBalanceChange,
  readBalance,
  listBalanceChanges as readChanges,
} from '../../../db/billing/ledger.ts';
import { ledgerKinds } from '../../../domain/billing/ledger.ts';
import { toJsonNumber } from '../../../domain/billing/money.ts';
import { notFound } from '../../../domain/errors.ts';
import { accountRoot, operator, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { givenId, time, withDefaultNonZero } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { amount, currency, positiveAmount } from './money.ts';

const balanceChangeSchema = z
  .object({
    transaction_id: z.string(),
    account_id: z.string(),
    kind: z.enum(ledgerKinds),
    description: z.string(),
    amount: amount().describe('Positive: credit was added'),
    currency: currency(),
    created_at: time(),
  })
  .meta({ id: 'BalanceChange' });

function presentBalanceChange(change: BalanceChange): z.output<typeof balanceChangeSchema> {
  return {
    transaction_id: change.transactionId,
    account_id: change.accountId,
    kind: change.kind,
    description: change.description,
    amount: toJsonNumber(change.amount),
    currency: change.currency,
    created_at: change.createdAt,
  };
}

const balance = z.object({ account_id: z.string(), balance: amount(), currency: currency() });

/** `GET /v1/billing/balance`: the credit of the account, which pays for invoices before a card does. */
export function getBalance(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/balance',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBalance',
      tags: ['Billing'],
      summary: 'Get the credit of the account',
      description: 'In the currency of the plans. Credit pays for invoices before a payment method is charged.',
      response: { 200: envelope(balance, 'The balance'), ...failures('root_required') },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const { currency } = deps.plans;
      const credit = await readBalance(deps.orm.em.fork(), accountId, currency);
      return success({ account_id: accountId, balance: toJsonNumber(credit), currency });
    },
  });
}

/** `GET /v1/billing/balance/changes`: the grants, refunds and uses of the account's credit. */
export function listBalanceChanges(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/balance/changes',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listBalanceChanges',
      tags: ['Billing'],
      summary: "List the changes of the account's credit, newest first",
      description:
        'Grants, refunds, and amounts that paid invoices; positive amounts add to the credit. Entries are never ' +
        'changed: a mistake is corrected by another one.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: {
        200: envelope(
          z.object({ changes: z.array(balanceChangeSchema), pagination: paginationSchema }),
          'A page of changes',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { changes, ...page } = await readChanges(deps.orm.em.fork(), requireScope(request), listing);
      return success({ changes: changes.map(presentBalanceChange), pagination: presentPagination(listing, page) });
    },
  });
}

/** `POST /v1/accounts/{account_id}/credits`: operators grant credit, or take back unused credit that they pay out. */
export function changeCredits(api: Api, deps: ApiDependencies): void {
  const body = z.object({
    action: z.enum(['grant', 'refund']),
    amount: positiveAmount(deps.plans.currency),
    description: withDefaultNonZero(z.string().max(500), 'By the operator of the platform'),
  });
  api.route({
    method: 'POST',
    url: '/v1/accounts/:account_id/credits',
    config: { access: operator('everything'), idempotency: { makes: 'ledgerTransaction' } },
    schema: {
      operationId: 'changeCredits',
      tags: ['Billing'],
      summary: 'Grant credit to an account, or remove unused credit that is paid out',
      description:
        '`grant` adds credit. `refund` removes unused credit that the operator pays out outside of the platform; ' +
        'it cannot be more than the balance.',
      headers: idempotencyHeaders,
      params: z.object({ account_id: givenId('account') }),
      body,
      response: {
        201: envelope(balanceChangeSchema, 'The change of the balance'),
        ...failures(ofMutations, ofIdempotency, 'admin_required', 'balance_too_low', 'not_found'),
      },
    },
    handler: async (request, reply) => {
      const { account_id: accountId } = request.params;
      const em = deps.orm.em.fork();
      const made = await createOnce(request, 'ledgerTransaction', {
        find: (id) => findBalanceChange(em, id),
        create: async (transactionId) => {
          const { currency } = deps.plans;
          await changeCredit(em, { ...request.body, transactionId, accountId, currency });
          const change = await findBalanceChange(em, transactionId);
          if (!change) throw notFound('Change of the balance');
          return change;
        },
      });
      return reply.code(201).send(success(presentBalanceChange(made)));
    },
  });
}
