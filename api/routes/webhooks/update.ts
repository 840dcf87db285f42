import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import { changeWebhookEndpoint } from '../../../db/webhooks/webhook-endpoints.ts';
import { AppError } from '../../../domain/errors.ts';
import type { AccountId, UserId } from '../../../domain/ids.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import {
  bodyBytesWithDescription,
  description,
  optional,
  optionalBody,
  optionalNonZero,
} from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { checkSubscription, checkUrl, eventTypesField, settingsFields, urlField } from './webhook-body.ts';
import { presentWebhook, webhookPath, webhookSchema } from './webhook-schema.ts';

const body = optionalBody(
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
      body,
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
      const caller = callerOf(request);
      const { url, event_types: types, scope, secret, ...wanted } = request.body;
      if (url !== undefined) checkUrl(url, deps.settings.PLATFORM_OUTBOUND_RANGES);
      const { endpoint_id: endpointId } = request.params;
      const endpoint = await changeWebhookEndpoint(deps.orm.em.fork(), scopeOf(request), endpointId, (row) => {
        if (url !== undefined) row.url = url;
        if (types?.length || scope !== undefined) {
          const checked = checkSubscription(scopeOf(request).rows !== 'user', {
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
  throw new AppError('validation_failed', `scope: ${reason}`, { details: [{ path: 'scope', reason }] });
}
