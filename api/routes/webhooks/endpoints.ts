import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import {
  changeWebhookEndpoint,
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  findWebhookEndpoint,
  listWebhookEndpoints,
  rollWebhookSecret,
} from '../../../db/webhooks/webhook-endpoints.ts';
import { AppError } from '../../../domain/errors.ts';
import { eventTypes, findAudience } from '../../../domain/event-types.ts';
import type { AccountId, UserId } from '../../../domain/ids.ts';
import { problemOfWebhookUrl, webhookUrlLength } from '../../../domain/webhooks/url.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  counted,
  description,
  optional,
  optionalBody,
  optionalNonZero,
  withDefault,
} from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  ofPaging,
  success,
  successMessage,
} from '../../schemas/replies.ts';
import { presentWebhook, readWebhook, webhookPath, webhookSchema } from './schema.ts';

/** Enough for all types and families, even if each is listed twice. */
const maxEventTypes = 100;

const urlField = z.string().min(1).max(webhookUrlLength).describe('`http://` or `https://`');
const eventTypesField = counted(maxEventTypes, 'event types', z.array(z.string().max(64)).max(maxEventTypes)).describe(
  'Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types`',
);

const secretReason = 'must be whsec_ and base64 of 24 to 64 bytes';
const secretField = z
  .string()
  .max('whsec_'.length + 88, secretReason)
  .regex(/^whsec_[A-Za-z0-9+/=]{32,88}$/, secretReason)
  .refine((secret) => {
    const [, encoded = ''] = secret.split('_');
    const bytes = Buffer.from(encoded, 'base64');
    return bytes.length >= 24 && bytes.length <= 64 && bytes.toString('base64') === encoded;
  }, secretReason)
  .describe('Adds a `v1` signature (HMAC) to requests; stored encrypted and never returned');

/** Fields that create and update share. */
const settingsFields = {
  scope: optionalNonZero(z.enum(['user', 'account'])).describe(
    '`user`: events of your own objects; `account`: all of the account, for root users',
  ),
  timeout_seconds: optionalNonZero(z.int().min(5).max(300)).describe('For one whole attempt, including the reply'),
  max_retries: optional(z.int().min(0).max(10)),
  secret: optionalNonZero(secretField),
};

/** @throws {AppError} `invalid_webhook_url` */
function checkUrl(url: string, allowedRanges: readonly string[]): string {
  const reason = problemOfWebhookUrl(url, allowedRanges);
  if (reason === null) return url;
  throw new AppError('invalid_webhook_url', `url: ${reason}`, { details: [{ path: 'url', reason }] });
}

/**
 * Checks which events an endpoint with these types receives.
 * @param isRoot the caller acts as a root user of the account
 * @param wanted.scope undefined: the scope that the types need
 * @returns the types without duplicates
 * @throws {AppError} `unsupported_event_type`; `root_required` when another user asks for events of the account
 */
function checkSubscription(
  isRoot: boolean,
  wanted: { eventTypes: readonly string[]; scope: 'user' | 'account' | undefined },
): { eventTypes: string[]; scope: 'user' | 'account' } {
  const { eventTypes: subscriptions } = wanted;
  if (subscriptions.length === 0) throw unsupported('event_types', 'must name at least one type');
  for (const [index, each] of subscriptions.entries()) {
    if (findAudience(each)) continue;
    throw unsupported(`event_types.${index}`, `is not one of ${eventTypes.map(({ type }) => type).join(', ')}`);
  }
  const ofAccount = subscriptions.findIndex((each) => findAudience(each) === 'account');
  const scope = wanted.scope ?? (ofAccount === -1 ? 'user' : 'account');
  if ((scope === 'account' || ofAccount !== -1) && !isRoot) {
    throw new AppError('root_required', "Only a root user may subscribe to the account's events");
  }
  if (scope === 'user' && ofAccount !== -1) {
    throw unsupported(`event_types.${ofAccount}`, `needs the scope account: ${subscriptions[ofAccount]}`);
  }
  return { eventTypes: [...new Set(subscriptions)], scope };
}

function unsupported(path: string, reason: string): AppError {
  return new AppError('unsupported_event_type', `${path}: ${reason}`, { details: [{ path, reason }] });
}

const createBody = z.object({
  url: urlField,
  event_types: eventTypesField,
  description: withDefault(description(), ''),
  ...settingsFields,
});

/** `POST /v1/webhooks`. */
export function createWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks',
    config: {
      bodyBytes: bodyBytesWithDescription,
      access: anyUser('by_role'),
      idempotency: { makes: 'webhookEndpoint' },
    },
    schema: {
      operationId: 'createWebhook',
      tags: ['Webhooks'],
      summary: 'Create a webhook: send events to a URL',
      description:
        'Events of these types are sent to the URL by POST, signed according to Standard Webhooks: with the ' +
        'key in `public_key`, and ' +
        'with `secret` if you give one. The scope `account` gets events of all users of the account and is for ' +
        'root users.',
      headers: idempotencyHeaders,
      body: createBody,
      response: {
        201: envelope(webhookSchema, 'The endpoint'),
        ...failures(ofMutations, ofIdempotency, ...refusals),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      const { url, event_types: wanted, scope: wantedScope, secret } = request.body;
      checkUrl(url, deps.settings.PLATFORM_OUTBOUND_RANGES);
      const { eventTypes, scope } = checkSubscription(caller.isRootUser, { eventTypes: wanted, scope: wantedScope });
      const em = deps.orm.em.fork();
      const { secretKeyNumber } = deps.webhookKeys;
      const endpoint = await createOnce(request, 'webhookEndpoint', {
        find: (endpointId) => findWebhookEndpoint(em, requireScope(request), endpointId),
        create: (endpointId) =>
          createWebhookEndpoint(em, {
            endpointId,
            accountId: caller.accountId,
            userId: scope === 'account' ? null : caller.userId,
            url,
            eventTypes,
            description: request.body.description,
            timeoutSeconds: request.body.timeout_seconds ?? 30,
            maxRetries: request.body.max_retries ?? 3,
            secretKeyNumber,
            publicKey: deps.webhookKeys.publicKey(endpointId, 1, secretKeyNumber),
            sealedSecret: secret ? deps.webhookKeys.seal(endpointId, secret) : null,
          }),
      });
      return reply.code(201).send(success(presentWebhook(endpoint, caller)));
    },
  });
}

const refusals = ['invalid_webhook_url', 'unsupported_event_type', 'webhook_limit_reached', 'root_required'] as const;

const reply = z.object({ webhooks: z.array(webhookSchema), pagination: paginationSchema });

/** `GET /v1/webhooks`. A user sees their own webhooks, the account root all webhooks of the account. */
export function listWebhooks(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listWebhooks',
      tags: ['Webhooks'],
      summary: 'List webhooks, newest first',
      description: 'Users see their own webhooks, root users those of the account.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: { 200: envelope(reply, 'A page of endpoints'), ...failures(ofPaging, 'admin_required', 'not_found') },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { endpoints, ...page } = await listWebhookEndpoints(deps.orm.em.fork(), requireScope(request), listing);
      const caller = requireCaller(request);
      return success({
        webhooks: endpoints.map((each) => presentWebhook(each, caller)),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

/** `GET /v1/webhooks/{endpoint_id}`. */
export function getWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks/:endpoint_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getWebhook',
      tags: ['Webhooks'],
      summary: 'Read a webhook',
      description:
        'Returns the webhook with the counts of its deliveries and the reason if it was disabled. The secret ' +
        'is never shown.',
      params: webhookPath,
      response: { 200: envelope(webhookSchema, 'The endpoint'), ...failures('not_found') },
    },
    handler: async (request) => {
      const endpoint = await readWebhook(deps.orm.em.fork(), request, request.params.endpoint_id);
      return success(presentWebhook(endpoint, requireCaller(request)));
    },
  });
}

const updateBody = optionalBody(
  z.object({
    url: optionalNonZero(urlField),
    event_types: optional(eventTypesField),
    is_active: optional(z.boolean()),
    description: optional(description()),
    ...settingsFields,
  }),
);

/** `PUT /v1/webhooks/{endpoint_id}`. Unfinished deliveries use the change from their next attempt on. */
export function updateWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/webhooks/:endpoint_id',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role') },
    schema: {
      operationId: 'updateWebhook',
      tags: ['Webhooks'],
      summary: 'Change a webhook; pending deliveries use the new values from their next attempt on',
      description:
        'Fields that are left out do not change. `is_active: true` enables a webhook again that was disabled after ' +
        'failures.',
      params: webhookPath,
      body: updateBody,
      response: {
        200: envelope(webhookSchema, 'The endpoint'),
        ...failures(
          ofMutations,
          ...(['not_found', 'invalid_webhook_url', 'unsupported_event_type', 'webhook_limit_reached'] as const),
          'root_required',
        ),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const { url, event_types: types, scope, secret, ...wanted } = request.body;
      if (url !== undefined) checkUrl(url, deps.settings.PLATFORM_OUTBOUND_RANGES);
      const { endpoint_id: endpointId } = request.params;
      const endpoint = await changeWebhookEndpoint(deps.orm.em.fork(), requireScope(request), endpointId, (row) => {
        if (url !== undefined) row.url = url;
        if (types?.length || scope !== undefined) {
          const checked = checkSubscription(requireScope(request).rows !== 'user', {
            eventTypes: types?.length ? types : row.eventTypes,
            scope: scope ?? (row.userId ? 'user' : 'account'),
          });
          row.eventTypes = checked.eventTypes;
          if (checked.scope === 'account') row.userId = null;
          else row.userId ??= userOfAccount(caller, row.accountId);
        }
        if (wanted.is_active !== undefined) row.isActive = wanted.is_active;
        if (wanted.description !== undefined) row.description = wanted.description;
        if (wanted.timeout_seconds !== undefined) row.timeoutSeconds = wanted.timeout_seconds;
        if (wanted.max_retries !== undefined) row.maxRetries = wanted.max_retries;
        if (secret) row.sealedSecret = deps.webhookKeys.seal(endpointId, secret);
      });
      return success(presentWebhook(endpoint, caller));
    },
  });
}

/**
 * The owner of the webhook. @throws {AppError} `validation_failed` for an admin of another account, because the owner
 * must be in the webhook's account
 */
function userOfAccount({ userId, accountId }: Identity, ofAccount: AccountId): UserId {
  if (accountId === ofAccount) return userId;
  const reason = 'must stay account, because you are not a user of this account';
  throw new AppError('validation_failed', `scope ${reason}`, { details: [{ path: 'scope', reason }] });
}

/** `DELETE /v1/webhooks/{endpoint_id}`. */
export function deleteWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/webhooks/:endpoint_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteWebhook',
      tags: ['Webhooks'],
      summary: 'Delete a webhook; its pending deliveries end',
      description: 'Deliveries that have not ended are stopped immediately.',
      params: webhookPath,
      response: { 200: messageEnvelope('It is deleted'), ...failures(ofMutations, 'not_found') },
    },
    handler: async (request) => {
      await deleteWebhookEndpoint(deps.orm.em.fork(), requireScope(request), request.params.endpoint_id);
      return successMessage('The webhook is deleted');
    },
  });
}

const secretBody = optionalBody(
  z.object({ secret: optionalNonZero(secretField).describe('The new secret; required if the webhook has one') }),
);

/** `POST /v1/webhooks/{endpoint_id}/roll-secret`. */
export function rollSecret(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks/:endpoint_id/roll-secret',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'rollWebhookSecret',
      tags: ['Webhooks'],
      summary: 'Replace the key and secret; the old ones also sign for 24 hours',
      description:
        'For 24 hours, deliveries are signed with the new and the old key and secret, so that a receiver can ' +
        'switch without losing events.',
      headers: idempotencyHeaders,
      params: webhookPath,
      body: secretBody,
      response: { 200: envelope(webhookSchema, 'The endpoint'), ...failures(ofMutations, ofIdempotency, 'not_found') },
    },
    handler: async (request) => {
      const { endpoint_id: endpointId } = request.params;
      const { secret } = request.body;
      const { secretKeyNumber } = deps.webhookKeys;
      const endpoint = await rollWebhookSecret(deps.orm.em.fork(), requireScope(request), endpointId, {
        sealedSecret: secret ? deps.webhookKeys.seal(endpointId, secret) : null,
        secretKeyNumber,
        publicKey: (keyNumber) => deps.webhookKeys.publicKey(endpointId, keyNumber, secretKeyNumber),
      });
      return success(presentWebhook(endpoint, requireCaller(request)));
    },
  });
}
