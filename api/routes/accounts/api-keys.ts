import { z } from 'zod';
import type { ApiKey } from '../../../db/accounts/api-key.entity.ts';
import {
  activeKeyLimit,
  apiKeySortColumns,
  updateApiKey as changeApiKey,
  findApiKeyView,
  listApiKeyViews,
  createApiKey as makeApiKey,
  deleteApiKey as removeApiKey,
  setApiKeyActive,
} from '../../../db/accounts/api-keys.ts';
import { findProfile } from '../../../db/accounts/users.ts';
import { spellForE2b } from '../../../domain/accounts/api-key.ts';
import { planHeldBy } from '../../../domain/billing/plans.ts';
import { notFound } from '../../../domain/errors.ts';
import { checkApiKeyName } from '../../../domain/names.ts';
import { anyUser, requireCaller, requirePlan, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  givenId,
  nameField,
  optional,
  optionalBody,
  optionalQuery,
  personSchema,
  presentPerson,
  time,
  withDefault,
} from '../../schemas/fields.ts';
import {
  accountQuery,
  ownerFilter,
  paginationSchema,
  pagingQuery,
  presentPagination,
  sortingQuery,
  toListing,
} from '../../schemas/lists.ts';
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

/** The fields of a key in every reply except that of create. */
const metadata = {
  key_id: z.string(),
  name: z.string(),
  description: z.string(),
  prefix: z.string().describe("The secret's first characters"),
  is_active: z.boolean(),
  last_used_at: time().nullable().describe('To the minute'),
  created_at: time(),
  updated_at: time(),
};

/** The update reply. */
const updatedApiKeySchema = z.object(metadata).meta({ id: 'UpdatedApiKey' });

/** The list and get reply. */
const apiKeySchema = z.object({ ...metadata, owner: personSchema }).meta({ id: 'ApiKey' });

/** The create reply. No other reply contains the secret. */
const createdApiKeySchema = z
  .object({
    key_id: z.string(),
    name: z.string(),
    description: z.string(),
    api_key: z
      .string()
      .optional()
      .describe('The secret, shown only once; a reply to a repeated Idempotency-Key does not have it'),
    e2b_api_key: z
      .string()
      .optional()
      .describe('The same key in the spelling that SDKs of E2B accept; a secret like `api_key`'),
    prefix: z.string(),
    is_active: z.boolean(),
    created_at: time(),
    max_active_api_keys: z.int(),
    owner: personSchema,
  })
  .meta({ id: 'CreatedApiKey' });

/** Path of routes on one key. */
const apiKeyPath = z.object({ key_id: givenId('apiKey').describe('`key-…`') });

function presentApiKey(key: ApiKey): z.output<typeof updatedApiKeySchema> {
  return {
    key_id: key.keyId,
    name: key.name,
    description: key.description,
    prefix: key.prefix,
    is_active: key.isActive,
    last_used_at: key.lastUsedAt ?? null,
    created_at: key.createdAt,
    updated_at: key.updatedAt,
  };
}

/** Characters of the secret in the create reply's prefix. Lists show more, so that keys can be distinguished. */
const shortPrefix = 8;

const createBody = z.object({
  name: nameField(64).describe('Unique among your keys'),
  description: withDefault(description(), ''),
});

/** `POST /v1/api-keys`. */
export function createApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/api-keys',
    config: {
      bodyBytes: bodyBytesWithDescription,
      access: anyUser('own'),
      idempotency: { makes: 'apiKey', secrets: ['api_key', 'e2b_api_key'] },
    },
    schema: {
      operationId: 'createApiKey',
      tags: ['API keys'],
      summary: 'Create an API key; its secret is shown only once',
      description:
        'Only this reply has the key itself; the platform stores only its hash. Names are unique among your ' +
        'keys. A user ' +
        'may have as many active keys as the plan allows.',
      headers: idempotencyHeaders,
      body: createBody,
      response: {
        201: envelope(createdApiKeySchema, 'The key with its secret'),
        ...failures(ofMutations, ofIdempotency, 'invalid_name', 'api_key_limit_reached', 'api_key_name_taken'),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      const em = deps.orm.em.fork();
      const planLimit = planHeldBy(caller, deps.plans).maxActiveApiKeys;
      const { key, secret } = await createOnce<{ key: ApiKey; secret?: string }, 'apiKey'>(request, 'apiKey', {
        // Only the secret's hash is stored, so the secret of an already created key cannot be shown again.
        find: async (keyId) => {
          const view = await findApiKeyView(em, requireScope(request), keyId);
          return view && { key: view.key };
        },
        create: (keyId) => {
          const name = checkApiKeyName(request.body.name.trim());
          return makeApiKey(em, caller, { keyId, name, description: request.body.description }, planLimit);
        },
      });
      const { user } = await findProfile(em, caller.userId);
      return reply.code(201).send(
        success({
          key_id: key.keyId,
          name: key.name,
          description: key.description,
          ...(secret !== undefined && { api_key: secret, e2b_api_key: spellForE2b(secret) }),
          prefix: key.prefix.slice(0, shortPrefix),
          is_active: key.isActive,
          created_at: key.createdAt,
          max_active_api_keys: await activeKeyLimit(em, requireScope(request), caller.userId, planLimit),
          owner: presentPerson(user),
        }),
      );
    },
  });
}

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  user_id: optionalQuery(givenId('user', z.string().max(64))).describe('Account root only'),
  status: optionalQuery(z.enum(['active', 'inactive'])),
  search: optionalQuery(z.string().max(256)).describe('Part of the name'),
  ...sortingQuery(apiKeySortColumns),
});

/** `GET /v1/api-keys`. A user sees their own keys, the account root all keys of the account. */
export function listApiKeys(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/api-keys',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listApiKeys',
      tags: ['API keys'],
      summary: 'List API keys, newest first',
      description:
        'Users see their own keys, root users those of the account. `user_id`, `status` and `search` narrow the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({
            api_keys: z.array(apiKeySchema),
            pagination: paginationSchema,
            max_active_api_keys: z
              .int()
              .describe('The limit of the user whose keys are listed; without `user_id`, of the caller'),
          }),
          'A page of keys, without their secrets',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      const listing = toListing(deps, request, 50);
      const userId = ownerFilter(scope, request.query.user_id);
      const { status } = request.query;
      const filter = { userId, isActive: status && status === 'active', search: request.query.search };
      const { views, ...page } = await listApiKeyViews(em, scope, filter, listing);
      const planLimit = requirePlan(request, deps.plans).maxActiveApiKeys;
      return success({
        api_keys: views.map(({ key, owner }) => ({ ...presentApiKey(key), owner: presentPerson(owner) })),
        pagination: presentPagination(listing, page),
        max_active_api_keys: await activeKeyLimit(em, scope, userId ?? caller.userId, planLimit),
      });
    },
  });
}

/** `GET /v1/api-keys/{key_id}`: without the secret. */
export function getApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/api-keys/:key_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getApiKey',
      tags: ['API keys'],
      summary: 'Read an API key',
      description: 'Returns name, prefix and last use. The key itself is never shown again.',
      params: apiKeyPath,
      response: { 200: envelope(apiKeySchema, 'The key'), ...failures('not_found') },
    },
    handler: async (request) => {
      const view = await findApiKeyView(deps.orm.em.fork(), requireScope(request), request.params.key_id);
      if (!view) throw notFound('API key');
      return success({ ...presentApiKey(view.key), owner: presentPerson(view.owner) });
    },
  });
}

const updateBody = optionalBody(
  z.object({
    name: optional(nameField(64)).describe("Unique among the owner's keys"),
    description: optional(description()),
  }),
);

/** `PUT /v1/api-keys/{key_id}`. */
export function updateApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/api-keys/:key_id',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role') },
    schema: {
      operationId: 'updateApiKey',
      tags: ['API keys'],
      summary: 'Rename or describe an API key',
      description:
        'Changes the name and the description. Fields that are left out do not change; the key itself does not ' +
        'change.',
      params: apiKeyPath,
      body: updateBody,
      response: {
        200: envelope(updatedApiKeySchema, 'The key'),
        ...failures(ofMutations, 'not_found', 'invalid_name', 'api_key_name_taken'),
      },
    },
    handler: async (request) => {
      const { name } = request.body;
      const key = await changeApiKey(deps.orm.em.fork(), requireScope(request), request.params.key_id, {
        name: name === undefined ? undefined : checkApiKeyName(name.trim()),
        description: request.body.description,
      });
      return success(presentApiKey(key));
    },
  });
}

/** `PUT /v1/api-keys/{key_id}/status`: a disabled key stops working with the next request. */
export function setApiKeyStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/api-keys/:key_id/status',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'setApiKeyStatus',
      tags: ['API keys'],
      summary: 'Enable or disable an API key',
      description:
        'A disabled key stops working at the next request, and exec streams that were opened with it end within two ' +
        'seconds. It can be enabled again as long as the plan allows one more active key.',
      params: apiKeyPath,
      body: z.object({ is_active: z.boolean() }),
      response: {
        200: envelope(z.object({ message: z.string(), is_active: z.boolean() }), 'Its status'),
        ...failures(ofMutations, 'not_found', 'api_key_limit_reached'),
      },
    },
    handler: async (request) => {
      const { is_active: isActive } = request.body;
      const planLimit = requirePlan(request, deps.plans).maxActiveApiKeys;
      await setApiKeyActive(deps.orm.em.fork(), requireScope(request), request.params.key_id, isActive, planLimit);
      return success({ message: `The API key is ${isActive ? 'enabled' : 'disabled'}`, is_active: isActive });
    },
  });
}

/** `DELETE /v1/api-keys/{key_id}`. */
export function deleteApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/api-keys/:key_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteApiKey',
      tags: ['API keys'],
      summary: 'Delete an API key',
      description:
        'The key stops working at the next request, and exec streams that were opened with it end within two ' +
        'seconds.',
      params: apiKeyPath,
      response: { 200: messageEnvelope('It is deleted'), ...failures(ofMutations, 'not_found') },
    },
    handler: async (request) => {
      await removeApiKey(deps.orm.em.fork(), requireScope(request), request.params.key_id);
      return successMessage('The API key is deleted');
    },
  });
}
