import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, UserId, WebhookEndpointId } from '../../domain/ids.ts';
import { type AuditedFields, recordAudit } from '../accounts/audit-events.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, scopeTransaction, withinScope } from '../core/scope.ts';
import { WebhookEndpoint } from './webhook-endpoint.entity.ts';

/**
 * The maximum number of endpoints of one user, and the same for the account itself. Each event makes a delivery for
 * every endpoint that subscribes to it.
 */
export const maxEndpoints = 50;

/** How long the previous key and secret still sign after a roll. */
const overlapMs = 24 * 3_600_000;

const listed: ListedTable = {
  table: 'webhook_endpoints',
  alias: 'w',
  key: ['endpoint_id'],
};

export type NewWebhookEndpoint = Pick<
  WebhookEndpoint,
  | 'endpointId'
  | 'accountId'
  | 'userId'
  | 'url'
  | 'eventTypes'
  | 'description'
  | 'timeoutSeconds'
  | 'maxRetries'
  | 'secretKeyNumber'
  | 'publicKey'
  | 'sealedSecret'
>;

/** The endpoint, if the caller may see it. */
export async function findWebhookEndpoint(
  em: EntityManager,
  scope: Scope,
  endpointId: WebhookEndpointId,
): Promise<WebhookEndpoint | null> {
  const named = { sql: 'w.endpoint_id = ?', values: [endpointId] };
  const row = await readOne<EntityRow<WebhookEndpoint>>(em, listed, [named, withinScope(scope, 'w', 'user_id')]);
  return row && readRow(em, WebhookEndpoint, row);
}

/** A page of the endpoints that a caller may see. */
export async function listWebhookEndpoints(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
): Promise<ListPage & { endpoints: WebhookEndpoint[] }> {
  const { rows, ...page } = await readPage<EntityRow<WebhookEndpoint>>(
    em,
    listed,
    [withinScope(scope, 'w', 'user_id')],
    listing,
  );
  return { endpoints: rows.map((row) => readRow(em, WebhookEndpoint, row)), ...page };
}

/** @throws {AppError} `webhook_limit_reached` */
export function createWebhookEndpoint(em: EntityManager, wanted: NewWebhookEndpoint): Promise<WebhookEndpoint> {
  return accountTransaction(em, wanted.accountId, async (tx) => {
    await requireBelowLimit(tx, wanted);
    const endpoint = tx.create(WebhookEndpoint, wanted);
    await recordAudit(tx, {
      accountId: wanted.accountId,
      objectId: wanted.endpointId,
      before: null,
      after: auditedFields(endpoint),
    });
    return endpoint;
  });
}

/**
 * Changes an endpoint. When it becomes active again, its count of failures starts at zero.
 * @throws {AppError} `not_found`, `webhook_limit_reached`, and the errors of `change`
 */
export function changeWebhookEndpoint(
  em: EntityManager,
  scope: Scope,
  endpointId: WebhookEndpointId,
  change: (endpoint: WebhookEndpoint) => void,
): Promise<WebhookEndpoint> {
  return scopeTransaction(em, scope, async (tx) => {
    const endpoint = await lockEndpoint(tx, scope, endpointId);
    const before = { ...endpoint };
    change(endpoint);
    if (before.userId !== endpoint.userId) await requireBelowLimit(tx, endpoint);
    if (endpoint.isActive && !before.isActive) {
      endpoint.disabledReason = null;
      endpoint.consecutiveFailures = 0;
      endpoint.failingSince = null;
    }
    const { accountId } = endpoint;
    const fields = { before: auditedFields(before), after: auditedFields(endpoint) };
    await recordAudit(tx, { accountId, objectId: endpointId, ...fields });
    return endpoint;
  });
}

/**
 * Signs with the next key, and with the given secret. The previous ones also sign for another 24 hours.
 * @param next.sealedSecret null: the endpoint has no secret
 * @throws {AppError} `not_found`, `validation_failed` when a secret is required
 */
export function rollWebhookSecret(
  em: EntityManager,
  scope: Scope,
  endpointId: WebhookEndpointId,
  next: { sealedSecret: string | null; secretKeyNumber: number; publicKey(keyNumber: number): string },
): Promise<WebhookEndpoint> {
  return changeWebhookEndpoint(em, scope, endpointId, (endpoint) => {
    if (endpoint.sealedSecret && !next.sealedSecret) {
      const reason = 'is required, because the endpoint has one';
      throw new AppError('validation_failed', `secret ${reason}`, { details: [{ path: 'secret', reason }] });
    }
    endpoint.previousKeyNumber = endpoint.keyNumber;
    endpoint.previousSecretKeyNumber = endpoint.secretKeyNumber;
    endpoint.previousSealedSecret = endpoint.sealedSecret ?? null;
    endpoint.previousUntil = new Date(Date.now() + overlapMs);
    endpoint.keyNumber += 1;
    endpoint.secretKeyNumber = next.secretKeyNumber;
    endpoint.publicKey = next.publicKey(endpoint.keyNumber);
    endpoint.sealedSecret = next.sealedSecret;
  });
}

/** Its unfinished deliveries end before their next attempt. @throws {AppError} `not_found` */
export async function deleteWebhookEndpoint(
  em: EntityManager,
  scope: Scope,
  endpointId: WebhookEndpointId,
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const endpoint = await lockEndpoint(tx, scope, endpointId);
    const { accountId } = endpoint;
    await recordAudit(tx, { accountId, objectId: endpointId, before: auditedFields(endpoint), after: null });
    tx.remove(endpoint);
  });
}

/** Creates of the same account run one after the other, so that they do not exceed the limit. */
async function requireBelowLimit(
  tx: EntityManager,
  { accountId, userId }: { accountId: AccountId; userId?: UserId | null },
) {
  await lockRow(tx, 'accounts', accountId);
  if ((await tx.count(WebhookEndpoint, { accountId, userId: userId ?? null })) < maxEndpoints) return;
  const whose = userId ? 'A user' : 'An account';
  throw new AppError('webhook_limit_reached', `${whose} may have ${maxEndpoints} webhooks; delete one first`);
}

async function lockEndpoint(tx: EntityManager, scope: Scope, endpointId: WebhookEndpointId): Promise<WebhookEndpoint> {
  const endpoint = await tx.findOne(
    WebhookEndpoint,
    { endpointId, ...entitiesWithin(scope, 'userId') },
    { lockMode: LockMode.PESSIMISTIC_WRITE },
  );
  if (!endpoint) throw notFound('Webhook endpoint');
  return endpoint;
}

/** Only the origin of the URL, because its path and query may be secret. */
function auditedFields(endpoint: WebhookEndpoint): AuditedFields {
  return {
    user_id: endpoint.userId ?? null,
    origin: new URL(endpoint.url).origin,
    event_types: endpoint.eventTypes.join(' '),
    is_active: endpoint.isActive,
    timeout_seconds: endpoint.timeoutSeconds,
    max_retries: endpoint.maxRetries,
    key_number: endpoint.keyNumber,
  };
}
