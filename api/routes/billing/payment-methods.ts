import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { requireCredentialId } from '../../../db/accounts/identities.ts';
import type { PaymentMethod } from '../../../db/billing/payment-method.entity.ts';
import {
  deleteMethod,
  findSetup,
  hasMethods,
  listMethods,
  readMethod,
  setDefaultMethod,
} from '../../../db/billing/payment-methods.ts';
import { cardLinkMinutes } from '../../../domain/billing/payments.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { ProcessorRefusedError } from '../../../integrations/payments/processor.ts';
import { apiUrl } from '../../../platform/config/public-urls.ts';
import { accountRoot, anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { addCardPath } from '../../pages/add-card.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { time } from '../../schemas/fields.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  success,
  successMessage,
} from '../../schemas/replies.ts';
import { beginSetup, keepFinishedSetup } from './card-setups.ts';
import { askProcessor, requireProcessor } from './processor.ts';

const methodSchema = z
  .object({
    id: z.string().meta({ examples: ['pmt-9ypjhn8d3fkq6w2mzx5v'] }),
    account_id: z.string(),
    payment_method_id: z.string().describe("The payment processor's id"),
    setup_intent_id: z.string().nullable(),
    type: z.string(),
    fingerprint: z.string().nullable(),
    last4: z.string().nullable(),
    exp_month: z.int().nullable(),
    exp_year: z.int().nullable(),
    brand: z.string().nullable(),
    billing_details: z.object({
      name: z.string().nullable(),
      email: z.string().nullable(),
      country: z.string().nullable(),
    }),
    is_default: z.boolean(),
    is_deleted: z.boolean(),
    is_verified: z.boolean(),
    verified_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'PaymentMethod' });

function presentMethod(method: PaymentMethod): z.output<typeof methodSchema> {
  return {
    id: method.id,
    account_id: method.accountId,
    payment_method_id: method.paymentMethodId,
    setup_intent_id: method.setupIntentId ?? null,
    type: method.type,
    fingerprint: method.fingerprint ?? null,
    last4: method.last4 ?? null,
    exp_month: method.expMonth ?? null,
    exp_year: method.expYear ?? null,
    brand: method.brand ?? null,
    billing_details: {
      name: method.billingName ?? null,
      email: method.billingEmail ?? null,
      country: method.billingCountry ?? null,
    },
    is_default: method.isDefault,
    is_deleted: method.isDeleted,
    is_verified: method.isVerified,
    verified_at: method.verifiedAt ?? null,
    created_at: method.createdAt,
    updated_at: method.updatedAt,
  };
}

/** `GET /v1/payment/methods`. */
export function listPaymentMethods(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/methods',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listPaymentMethods',
      tags: ['Payments'],
      summary: 'List the payment methods of the account, newest first',
      description: "The card's number is not included: it never passes through the platform.",
      response: {
        200: envelope(z.object({ payment_methods: z.array(methodSchema) }), 'The payment methods'),
        ...failures('root_required', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const methods = await listMethods(deps.orm.em, requireScope(request));
      return success({ payment_methods: methods.map(presentMethod) });
    },
  });
}

/** `GET /v1/payment/methods/status`. */
export function getPaymentMethodsStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/methods/status',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getPaymentMethodsStatus',
      tags: ['Payments'],
      summary: 'Check whether the account has a verified payment method',
      description: 'For pages that ask for a card first. The reply has no details of the card.',
      response: {
        200: envelope(z.object({ has_payment_methods: z.boolean() }), 'Whether there is one'),
        ...failures('payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      return success({ has_payment_methods: await hasMethods(deps.orm.em, requireCaller(request).accountId) });
    },
  });
}

/** `POST /v1/payment/methods/setup-intent`: begins to add a card. The browser continues with the processor. */
export function setUpPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/setup-intent',
    config: {
      access: accountRoot('account'),
      idempotency: {
        makes: 'request',
        secrets: ['client_secret'],
        restore: (data) => ({ ...data, client_secret: '' }),
      },
    },
    schema: {
      operationId: 'setUpPaymentMethod',
      tags: ['Payments'],
      summary: 'Begin to add a card',
      description:
        'The reply has a secret with which a browser sends the card to the processor; `POST ' +
        '/v1/payment/methods/check-status` then says whether the card has been added. The secret is not stored.',
      headers: idempotencyHeaders,
      response: {
        200: envelope(
          z.object({ client_secret: z.string().describe('Empty in a repeated reply'), setup_intent_id: z.string() }),
          'The data for the browser; the secret is not stored',
        ),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const begun = await askProcessor(beginSetup({ orm: deps.orm, processor }, requireCaller(request).accountId));
      return success({ client_secret: begun.clientSecret, setup_intent_id: begun.setupIntentId });
    },
  });
}

/**
 * `POST /v1/payment/methods/link`: a link to the page that adds a card. The token is after the `#`, because browsers
 * send that part to no server.
 */
export function linkToAddPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/link',
    config: {
      access: accountRoot('account'),
      idempotency: {
        makes: 'request',
        secrets: ['url'],
        restore: async (data, request) => {
          const { setup_intent_id: setupIntentId, expires_at: expiresAt } = data as Record<string, string>;
          return { ...data, url: await createCardUrl(deps, request, setupIntentId!, new Date(expiresAt!)) };
        },
      },
    },
    schema: {
      operationId: 'linkToAddPaymentMethod',
      tags: ['Payments'],
      summary: 'Get a link to a page that adds a card',
      description:
        'The page works for an hour without a sign-in, so the person with the card can open it. It stops ' +
        'working earlier if the ' +
        'API key or the session that made the link ends.',
      headers: idempotencyHeaders,
      response: {
        200: envelope(
          z.object({ url: z.string(), setup_intent_id: z.string(), expires_at: time() }),
          'The link; it adds one card to the account, without signing in',
        ),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const caller = requireCaller(request);
      const { setupIntentId } = await askProcessor(beginSetup({ orm: deps.orm, processor }, caller.accountId));
      const expiresAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + cardLinkMinutes * 60_000);
      const url = await createCardUrl(deps, request, setupIntentId, expiresAt);
      return success({ url, setup_intent_id: setupIntentId, expires_at: expiresAt });
    },
  });
}

async function createCardUrl(deps: ApiDependencies, request: FastifyRequest, setupIntentId: string, expiresAt: Date) {
  const credentialId = requireCredentialId(requireCaller(request));
  const token = await deps.cardLinks.make({ setupIntentId, credentialId }, expiresAt);
  return `${apiUrl(deps.settings)}${addCardPath}#${token}`;
}

const method = z.object({
  payment_method_id: z.string(),
  last4: z.string().nullable(),
  brand: z.string().nullable(),
  is_verified: z.boolean(),
});

/**
 * `POST /v1/payment/methods/check-status`: whether a card was added. Asks the processor if its notification has not
 * arrived.
 */
export function checkPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/check-status',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'checkPaymentMethod',
      tags: ['Payments'],
      summary: 'Check whether a new card has been added',
      description:
        'Asks the processor if its notification has not arrived. `processed` is false until the processor has ' +
        'verified the card: repeat the request until then.',
      body: z.object({ setup_intent_id: z.string().min(1).max(255) }),
      response: {
        200: envelope(
          z.object({ processed: z.boolean(), method: method.nullable() }),
          'The card; while it is not verified, `processed` is false and `message` asks you to try again',
        ),
        ...failures(
          ...([ofMutations, 'root_required', 'not_found'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const { setup_intent_id: setupIntentId } = request.body;
      const begun = await findSetup(deps.orm.em, setupIntentId);
      if (begun?.accountId !== requireCaller(request).accountId) throw notFound('Setup intent');
      const kept = await askProcessor(keepFinishedSetup({ orm: deps.orm, processor }, setupIntentId));
      if (!kept) {
        return success({ processed: false, method: null }, 'The card is not verified yet; try again in a few seconds');
      }
      const { paymentMethodId, last4, brand, isVerified } = kept;
      const shown = { last4: last4 ?? null, brand: brand ?? null, is_verified: isVerified };
      return success({ processed: true, method: { payment_method_id: paymentMethodId, ...shown } });
    },
  });
}

/** `POST /v1/payment/methods/set-default`. */
export function setDefaultPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/set-default',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'setDefaultPaymentMethod',
      tags: ['Payments'],
      summary: 'Choose the payment method that is charged',
      description:
        "Takes the platform's id of the method (`pmt-…`) or the processor's (`pm_…`). Only a verified method " +
        'can be charged.',
      body: z.object({ payment_method_id: z.string().min(1).max(255) }),
      response: {
        200: envelope(methodSchema, 'The payment method'),
        ...failures(ofMutations, 'root_required', 'not_found', 'payment_method_not_usable', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const { accountId } = requireCaller(request);
      const chosen = await setDefaultMethod(deps.orm.em.fork(), accountId, request.body.payment_method_id);
      return success(presentMethod(chosen));
    },
  });
}

/** `DELETE /v1/payment/methods/{id}`: accepts our id or the processor's id. */
export function deletePaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/payment/methods/:id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deletePaymentMethod',
      tags: ['Payments'],
      summary: 'Remove a payment method',
      description:
        "Takes the platform's id of the method (`pmt-…`) or the processor's (`pm_…`). It is removed at the " +
        'processor, too. If ' +
        'it was the default, the newest remaining method becomes the default.',
      params: z.object({ id: z.string().meta({ example: 'pmt-9ypjhn8d3fkq6w2mzx5v' }) }),
      response: {
        200: messageEnvelope('It is removed; if it was the default, the newest remaining method is now the default'),
        ...failures(
          ...([ofMutations, 'root_required', 'not_found', 'payment_method_not_detachable'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const em = deps.orm.em.fork();
      const { paymentMethodId } = await readMethod(em, requireScope(request), request.params.id);
      try {
        await askProcessor(processor.detachMethod(paymentMethodId));
      } catch (error) {
        if (!(error instanceof ProcessorRefusedError)) throw error;
        throw new AppError('payment_method_not_detachable', 'The payment processor refuses to remove this method now', {
          cause: error,
        });
      }
      await deleteMethod(em, paymentMethodId);
      return successMessage('The payment method is removed');
    },
  });
}
