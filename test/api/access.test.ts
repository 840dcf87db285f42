import { randomBytes } from 'node:crypto';
import { json } from 'node:stream/consumers';
import { accountRoot, anyUser, operator, requireScope } from '../../api/access.ts';
import { createApp } from '../../api/app.ts';
import { refusedRoutes } from '../../api/e2b/refused.ts';
import { toQuota } from '../../api/routes/usage/quotas.ts';
import { Account } from '../../db/accounts/account.entity.ts';
import { ApiKey } from '../../db/accounts/api-key.entity.ts';
import { hashApiKey } from '../../db/accounts/identities.ts';
import { Notification } from '../../db/accounts/notification.entity.ts';
import { startSession } from '../../db/accounts/sign-ins.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { newId } from '../../db/core/new-id.ts';
import { Host } from '../../db/hosts/host.entity.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { ImportJob } from '../../db/templates/import-job.entity.ts';
import { allocateQuota } from '../../db/usage/quota-allocations.ts';
import { QuotaRequest } from '../../db/usage/quota-request.entity.ts';
import { addTestDelivery } from '../../db/webhooks/webhook-deliveries.ts';
import { WebhookEndpoint } from '../../db/webhooks/webhook-endpoint.entity.ts';
import { makeApiKey } from '../../domain/accounts/api-key.ts';
import type { SandboxId, UserId } from '../../domain/ids.ts';
import { addBilling } from '../support/billing-rows.ts';
import { addPayments } from '../support/payment-rows.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

/** All kinds of callers. The named objects belong to `user`. */
const kinds = [
  ...['no key', 'a wrong key', 'a disabled key', 'a deleted key', 'a disabled user'],
  ...['a user', 'another user of the account', 'the account root', 'the root of another account'],
  ...['an operator of another account', 'an operator who is not root', 'a suspended account'],
  ...['a user with a token', 'the account root with a token', 'an expired token', 'a token that signed out'],
] as const;
type Kind = (typeof kinds)[number];

interface Row {
  who: 'anyone' | 'user' | 'account_root' | 'operator';
  rows: 'none' | 'own' | 'by_role' | 'account' | 'everything';
  /** A body that the route accepts. */
  body?: (names: Names) => Json;
  /** For routes without an object in their path: the owners of everything in the reply. */
  owners?: (data: Json) => string[];
  /** A route that makes the object that this one removes. */
  after?: string;
  /** The object does not exist: an allowed caller gets 404. */
  missing?: boolean;
}

interface Names {
  sandbox_id: SandboxId;
  project_id: string;
  key_id: string;
  template_id: string;
  job_id: string;
  notification_id: string;
  allocation_id: string;
  request_id: string;
  user_id: string;
  endpoint_id: string;
  invoice_id: string;
  delivery_id: string;
  account_id: string;
  host_id: string;
  id: string;
  alias: string;
}

const user = (rows: Row['rows'], more: Omit<Row, 'who' | 'rows'> = {}): Row => ({ who: 'user', rows, ...more });
const root = (more: Omit<Row, 'who' | 'rows'> = {}): Row => ({ who: 'account_root', rows: 'account', ...more });
const quotaRequest = { cpu_seconds_monthly: 1, template_storage_gb: 1, reason: 'more' };
const anyone: Row = { who: 'anyone', rows: 'none' };
const operated: Row = { who: 'operator', rows: 'everything' };
const batch = user('by_role', { body: ({ sandbox_id: id }) => ({ sandbox_ids: [id] }) });
const notifications = user('own', { body: ({ notification_id: id }) => ({ notification_ids: [id] }) });
const webhook = { url: 'https://example.com/hooks', event_types: ['template.*'] };
const timeout = user('by_role', { body: () => ({ timeout: 7200 }) });

/** A stream without an end. */
const endless = '/v1/events/stream';

/** Every route, with its allowed callers and the rows that it uses. */
const table: Record<string, Row> = {
  'GET /healthz': anyone,
  'GET /readyz': anyone,
  'GET /openapi.json': anyone,
  'GET /agent-openapi.json': anyone,
  'GET /clients': anyone,
  'GET /clients/:file': anyone,
  'GET /docs': anyone,
  'GET /docs/*': anyone,
  'GET /guide': anyone,
  'GET /guide/*': anyone,
  'GET /guide/search': anyone,
  'OPTIONS /codec/:token/decode': anyone,
  'POST /codec/:token/decode': anyone,
  'OPTIONS /codec/:token/encode': anyone,
  'POST /codec/:token/encode': anyone,
  'GET /v1/platform-regions': anyone,
  'GET /metrics': { who: 'operator', rows: 'none' },
  'GET /': anyone,
  'GET /console': anyone,
  'GET /console/*': anyone,
  'GET /console/assets/:name': { ...anyone, missing: true },
  'GET /console/icon.svg': anyone,
  'GET /account/style.css': anyone,
  'GET /account/add-card': anyone,
  'GET /account/add-card/script.js': anyone,
  'POST /account/add-card/begin': { ...anyone, body: () => ({ token: 'x' }) },
  'POST /account/add-card/check': { ...anyone, body: () => ({ token: 'x' }) },
  'GET /account/sign-in': anyone,
  'GET /account/reset-password': anyone,
  'GET /account/confirm-email-change': anyone,
  'GET /account/forgot-password': anyone,
  'POST /v1/auth/sign-in': { ...anyone, body: () => ({}) },
  'POST /v1/auth/sign-out': user('own'),
  'POST /v1/auth/session': { ...anyone, body: () => ({}) },
  'GET /v1/auth/session': user('own', { owners: (data) => [data.user_id] }),
  'DELETE /v1/auth/session': user('own'),
  'GET /v1/auth/providers': anyone,
  'POST /v1/auth/forgot-password': { ...anyone, body: () => ({}) },
  'POST /v1/auth/reset-password': { ...anyone, body: () => ({}) },
  'GET /v1/auth/oidc/:issuer/start': anyone,
  'GET /v1/auth/oidc/:issuer/callback': anyone,
  'POST /v1/user-management/change-password': user('own', {
    body: () => ({ current_password: 'wrong', new_password: 'korrekt pferd batterie' }),
  }),
  'POST /v1/user-management/request-password-reset': user('own'),
  'POST /v1/user-management/users/:user_id/reset-password': { who: 'account_root', rows: 'account' },
  'GET /v1/users/me': user('own', { owners: (data) => [data.user_id] }),
  'PUT /v1/users/me': user('own', { body: () => ({ description: 'changed' }) }),
  'GET /v1/user-management/users': root(),
  'POST /v1/user-management/users': root({
    body: () => ({ email: `${tail()}@example.com`, username: `made-${tail()}`, role: 'user' }),
  }),
  'GET /v1/user-management/users/:user_id': root(),
  'PUT /v1/user-management/users/:user_id': root({ body: () => ({ description: 'changed' }) }),
  'DELETE /v1/user-management/users/:user_id': root(),
  'GET /v1/audit-events': root(),
  'PUT /v1/user-management/account': root({ body: () => ({ description: 'changed' }) }),
  'POST /v1/user-management/account/email-change-request': root({
    body: () => ({ current_email: 'a@example.com', new_email: 'b@example.com' }),
  }),
  'GET /v1/user-management/account/email-change-status': user('account'),
  'POST /v1/user-management/account/clear-email-change-requests': user('by_role'),
  'POST /v1/user-management/account/confirm-email-change': { ...anyone, body: () => ({ token: 'x' }) },
  'GET /v1/user-management/plans': user('none'),
  'GET /v1/usage/quotas': user('own'),
  'GET /v1/usage/summary': user('by_role'),
  'GET /v1/usage/analytics': user('by_role'),
  'GET /v1/usage/sessions': user('by_role'),
  'GET /v1/usage/events': user('by_role', { owners: (data) => data.events.map((each: Json) => each.user_id) }),
  'GET /v1/usage/quota-requests': user('by_role', {
    owners: (data) => data.requests.map((each: Json) => each.user_id),
  }),
  'PUT /v1/usage/quota-requests/:request_id': user('own', { body: () => quotaRequest }),
  'DELETE /v1/usage/quota-requests/:request_id': user('own'),
  'POST /v1/usage/quota-requests': user('own', { body: () => quotaRequest }),
  'GET /v1/user-management/quota-requests': root(),
  'POST /v1/user-management/quota-requests/:request_id/review': root({ body: () => ({ action: 'deny' }) }),
  'GET /v1/user-management/quota-allocations': root(),
  // Without a body. Each caller's account has other users, and a user of another account is 404.
  'POST /v1/user-management/quota-allocations': root(),
  'PUT /v1/user-management/quota-allocations/:allocation_id': root({ body: () => ({ concurrent_sandboxes: 9 }) }),
  'POST /v1/user-management/quota-allocations/:allocation_id/revoke': root(),
  'DELETE /v1/user-management/quota-allocations/:allocation_id': root(),
  'GET /v1/templates': user('by_role'),
  'POST /v1/templates': user('by_role', {
    body: () => ({ name: `made-${tail()}` }),
    owners: (data) => [data.owner_id],
  }),
  'GET /v1/templates/:template_id': user('by_role'),
  'PUT /v1/templates/:template_id': user('by_role', { body: () => ({ description: 'changed' }) }),
  'DELETE /v1/templates/:template_id': user('by_role'),
  'GET /v1/templates/:template_id/document': user('by_role'),
  'PUT /v1/templates/:template_id/document': user('by_role', { body: () => ({ template_document: '# Changed' }) }),
  'DELETE /v1/templates/:template_id/document': user('by_role'),
  'PUT /v1/templates/:template_id/status': user('by_role', { body: () => ({ status: 'building' }) }),
  'POST /v1/templates/:template_id/validate': user('by_role', {
    body: () => ({ registry_image_url: 'registry.example.com/templates/web:latest' }),
  }),
  'POST /v1/templates/import': user('by_role', {
    body: () => ({ name: `made-${tail()}`, external_image_url: 'ghcr.io/ada/app:1' }),
  }),
  'POST /v1/templates/:template_id/import': user('by_role'),
  'GET /v1/templates/:template_id/import': user('own'),
  'DELETE /v1/templates/:template_id/import': user('own'),
  'GET /v1/templates/storage-usage': user('account'),
  'GET /v1/import-jobs': user('by_role'),
  'GET /v1/import-jobs/:job_id': user('by_role'),
  'DELETE /v1/import-jobs/:job_id': user('by_role'),
  'POST /v1/templates/:template_id/share': user('by_role'),
  'POST /v1/templates/:template_id/unshare': user('by_role'),
  'GET /v1/projects': user('by_role', {
    owners: (data) => data.projects.map((each: Json) => each.owner_user_id),
  }),
  'POST /v1/projects': user('by_role', {
    body: () => ({ name: `made-${tail()}` }),
    owners: (data) => [data.owner_user_id],
  }),
  'GET /v1/projects/:project_id': user('by_role'),
  'PUT /v1/projects/:project_id': user('by_role', { body: () => ({ description: 'changed' }) }),
  'DELETE /v1/projects/:project_id': user('by_role'),
  'GET /v1/projects/:project_id/sandboxes': user('by_role'),
  'POST /v1/projects/:project_id/sandboxes/:sandbox_id/add': user('by_role'),
  'POST /v1/projects/:project_id/sandboxes/:sandbox_id/evict': user('by_role'),
  'GET /v1/api-keys': user('by_role', { owners: (data) => data.api_keys.map((each: Json) => each.owner.user_id) }),
  'POST /v1/api-keys': user('own', {
    body: () => ({ name: `made-${tail()}` }),
    owners: (data) => [data.owner.user_id],
  }),
  'GET /v1/api-keys/:key_id': user('by_role'),
  'PUT /v1/api-keys/:key_id': user('by_role', { body: () => ({ description: 'changed' }) }),
  'PUT /v1/api-keys/:key_id/status': user('by_role', { body: () => ({ is_active: false }) }),
  'DELETE /v1/api-keys/:key_id': user('by_role'),
  'GET /v1/webhooks/event-types': user('none'),
  'GET /v1/events': user('by_role'),
  [`GET ${endless}`]: user('by_role'),
  'GET /v1/webhooks': user('by_role', { owners: (data) => data.webhooks.map((each: Json) => each.user_id) }),
  'POST /v1/webhooks': user('by_role', { body: () => webhook, owners: (data) => [data.user_id] }),
  'GET /v1/webhooks/:endpoint_id': user('by_role'),
  'PUT /v1/webhooks/:endpoint_id': user('by_role', { body: () => ({ description: 'changed' }) }),
  'DELETE /v1/webhooks/:endpoint_id': user('by_role'),
  'POST /v1/webhooks/:endpoint_id/roll-secret': user('by_role'),
  'POST /v1/webhooks/:endpoint_id/test': user('by_role'),
  'GET /v1/webhooks/:endpoint_id/deliveries': user('by_role'),
  'GET /v1/webhooks/:endpoint_id/deliveries/:delivery_id': user('by_role'),
  'POST /v1/webhooks/:endpoint_id/deliveries/:delivery_id/redeliver': user('by_role'),
  'GET /v1/billing/balance': root(),
  'GET /v1/billing/balance/changes': root(),
  'GET /v1/budgets': root(),
  'POST /v1/budgets': root({ body: () => ({ budget_amount: 10 }) }),
  'PUT /v1/budgets': root({ body: () => ({ limit_type: 'hard' }) }),
  'DELETE /v1/budgets': root({ after: 'POST /v1/budgets' }),
  'GET /v1/budgets/status': root(),
  'GET /v1/budgets/messages': root(),
  'GET /v1/config/payment-processor': anyone,
  'POST /v1/payment/processor-webhook': { ...anyone, body: () => ({}) },
  'GET /v1/payment/methods': root(),
  'GET /v1/payment/methods/status': user('account'),
  'POST /v1/payment/methods/setup-intent': root(),
  'POST /v1/payment/methods/link': root(),
  'POST /v1/payment/methods/check-status': root({ body: () => ({}) }),
  'POST /v1/payment/methods/set-default': root({ body: () => ({}) }),
  'DELETE /v1/payment/methods/:id': root(),
  'GET /v1/billing/invoices': root(),
  'GET /v1/billing/invoices/:invoice_id': root(),
  'GET /v1/billing/invoices/:invoice_id/receipt': root(),
  'GET /v1/billing/current': root(),
  'GET /v1/billing/periods': root(),
  'GET /v1/billing/history': root(),
  'POST /v1/billing/invoice/generate': root(),
  'GET /v1/user-management/account/subscription': user('account'),
  'POST /v1/user-management/account/subscription': root({ body: () => ({ plan_name: 'enterprise' }) }),
  'GET /v1/user-management/account/subscription/history': root(),
  'GET /v1/payment/subscription-payment-by-period': user('account'),
  'GET /v1/payment/intents': root(),
  'GET /v1/payment/intents/:id': root(),
  'POST /v1/payment/intents/:id/refunds': { ...{ who: 'operator', rows: 'everything' }, body: () => ({}) },
  'POST /v1/accounts/:account_id/credits': {
    ...{ who: 'operator', rows: 'everything' },
    body: () => ({ action: 'grant', amount: 1 }),
  },
  'GET /v1/admin/accounts': operated,
  'PUT /v1/admin/accounts/:account_id/status': { ...operated, body: () => ({ status: 'active' }) },
  'GET /v1/admin/hosts': operated,
  'POST /v1/admin/hosts/:host_id/drain': operated,
  'DELETE /v1/admin/hosts/:host_id/drain': operated,
  'GET /v1/admin/dead-letters': operated,
  'POST /v1/admin/dead-letters/:id/retry': { ...operated, missing: true },
  'GET /v1/admin/workers': operated,
  'GET /v1/admin/reconciliations/latest': { ...operated, missing: true },
  'GET /v1/notifications': user('own', {
    owners: (data) => data.notifications.map((each: Json) => each.user_id),
  }),
  // Before the routes that delete all of a caller's notifications.
  'GET /v1/notifications/:notification_id': user('own'),
  'DELETE /v1/notifications': user('own'),
  'PATCH /v1/notifications/read-all': user('own'),
  'PATCH /v1/notifications/bulk-read': notifications,
  'PATCH /v1/notifications/bulk-unread': notifications,
  'POST /v1/notifications/bulk-delete': notifications,
  'DELETE /v1/notifications/:notification_id': user('own'),
  'PATCH /v1/notifications/:notification_id/read': user('own'),
  'PATCH /v1/notifications/:notification_id/unread': user('own'),
  'GET /v1/sandboxes': user('by_role', { owners: (data) => data.sandboxes.map((each: Json) => each.owner_user_id) }),
  'POST /v1/sandboxes': user('by_role', { body: () => ({}), owners: (data) => [data.owner_user_id] }),
  'GET /v1/sandboxes/stats': user('by_role'),
  'POST /v1/sandboxes/batch-delete': batch,
  'POST /v1/sandboxes/batch-terminate': batch,
  'POST /v1/sandboxes/batch-pause': batch,
  'POST /v1/sandboxes/batch-resume': batch,
  'GET /v1/sandboxes/:sandbox_id': user('by_role'),
  'PUT /v1/sandboxes/:sandbox_id': timeout,
  'DELETE /v1/sandboxes/:sandbox_id': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/status': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/metrics': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/metrics/chart': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/events': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/cost': user('by_role'),
  'GET /v1/admin/sandboxes/:sandbox_id/workflow': operated,
  'POST /v1/sandboxes/:sandbox_id/timeout': timeout,
  'POST /v1/sandboxes/:sandbox_id/connect': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/pause': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/resume': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/restart': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/create-template': user('by_role', { body: () => ({ name: `made-${tail()}` }) }),
  'POST /v1/sandboxes/:sandbox_id/terminate': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/switch-project': user('by_role', {
    body: ({ project_id: id }) => ({ project_id: id }),
  }),
  'GET /v1/sandboxes/:sandbox_id/ports': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/ports': user('by_role', { body: () => ({ port: 8080, name: 'web' }) }),
  'DELETE /v1/sandboxes/:sandbox_id/ports/:port': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/webrtc-turn-credential': user('by_role'),
  'POST /v1/sandboxes/:sandbox_id/exec': user('by_role', { body: () => ({ command: 'true' }) }),
  'GET /v1/sandboxes/:sandbox_id/exec/active': user('by_role'),
  'GET /v1/sandboxes/:sandbox_id/exec/stream': user('by_role'),
  'DELETE /v1/sandboxes/:sandbox_id/exec': user('by_role'),
  'GET /e2b/teams': user('account'),
  'GET /e2b/sandboxes': user('by_role'),
  'GET /e2b/v2/sandboxes': user('by_role'),
  'POST /e2b/sandboxes': user('by_role', { body: () => ({ templateID: 'base' }) }),
  'POST /e2b/v2/sandboxes': user('by_role', { body: () => ({ templateID: 'base' }) }),
  'GET /e2b/sandboxes/:sandbox_id': user('by_role'),
  'DELETE /e2b/sandboxes/:sandbox_id': user('by_role'),
  'GET /e2b/sandboxes/:sandbox_id/metrics': user('by_role'),
  'GET /e2b/sandboxes/:sandbox_id/logs': user('by_role'),
  'GET /e2b/v2/sandboxes/:sandbox_id/logs': user('by_role'),
  'POST /e2b/sandboxes/:sandbox_id/connect': user('by_role', { body: () => ({ timeout: 60 }) }),
  'POST /e2b/v2/sandboxes/:sandbox_id/connect': user('by_role'),
  'POST /e2b/sandboxes/:sandbox_id/pause': user('by_role'),
  'POST /e2b/sandboxes/:sandbox_id/resume': user('by_role'),
  'POST /e2b/sandboxes/:sandbox_id/timeout': user('by_role', { body: () => ({ timeout: 60 }) }),
  'POST /e2b/sandboxes/:sandbox_id/refreshes': user('by_role'),
  'GET /e2b/templates': user('by_role'),
  'GET /e2b/templates/:template_id': user('by_role'),
  'DELETE /e2b/templates/:template_id': user('by_role'),
  'GET /e2b/templates/aliases/:alias': user('by_role'),
  ...Object.fromEntries(refusedRoutes.map(({ method, url }) => [`${method} /e2b${url}`, user('none')])),
};

/** Replies in the form of E2B have the status as their code. */
const codesOfE2b: Record<number, string> = { 401: 'unauthenticated', 403: 'account_suspended', 404: 'not_found' };

const namesObject = (name: string) =>
  /:(sandbox|project|key|template|job|notification|allocation|request|user|endpoint|delivery)_id|\/batch-|:id$/.test(
    name,
  );

/** The expected result. `in`: the route runs, and may still end with its own error. */
function expected(name: string, row: Row, kind: Kind): string {
  const { who, rows } = row;
  // A token has the same access as a key of the same user.
  if (kind === 'a user with a token') return expected(name, row, 'a user');
  if (kind === 'the account root with a token') return expected(name, row, 'the account root');
  if (who === 'anyone') return row.missing ? '404 not_found' : 'in';
  switch (kind) {
    case 'no key':
    case 'a wrong key':
    case 'a disabled key':
    case 'a deleted key':
    case 'a disabled user':
    case 'an expired token':
    case 'a token that signed out':
      return '401 unauthenticated';
    case 'a suspended account':
      if (who === 'operator') return '403 admin_required';
      return /^(GET|HEAD) /.test(name) ? 'in' : '403 account_suspended';
    default:
  }
  const isOperator = kind === 'an operator of another account' || kind === 'an operator who is not root';
  if (who === 'operator' && !isOperator) return '403 admin_required';
  if (row.missing) return '404 not_found';
  // With the rights of the root user of the object's account.
  const operates = isOperator && /:(\w+_)?id/.test(name) && (rows === 'by_role' || rows === 'account');
  if (operates) return 'in';
  const isRoot = !['a user', 'another user of the account', 'an operator who is not root'].includes(kind);
  if (who === 'account_root' && !isRoot) return '403 root_required';
  if (name.includes(':invoice_id') && kind === 'the root of another account') return '403 invoice_of_another_account';
  if (!namesObject(name)) return 'in';
  if (kind === 'a user' || rows === 'everything') return 'in';
  if (kind === 'the account root') return rows === 'by_role' || rows === 'account' ? 'in' : '404 not_found';
  if (kind === 'another user of the account') return rows === 'account' ? 'in' : '404 not_found';
  return '404 not_found';
}

/** It does not respond, which is the same for every caller. */
const issuer = {
  ...{ id: 'corp', issuer: 'http://127.0.0.1:9', client_id: 'platform', label: 'Example Corp' },
  ...{ account_id: 'acc-none', domains: ['corp.example'] },
};

let api: TestApi;
let hostId: string;
let callers: Record<Kind, (Caller & { token?(): Promise<string> }) | null>;
/** Objects of the user and of the suspended account. */
let names: Names;
let suspendedNames: Names;

beforeAll(async () => {
  api = await startApi({
    planName: 'enterprise',
    env: {
      PLATFORM_RATE_LIMIT_PER_KEY: '0',
      PLATFORM_RATE_LIMIT_PER_ADDRESS: '0',
      PLATFORM_OIDC_ISSUERS: JSON.stringify([issuer]),
      ...processorSettings(),
    },
  });
  const em = api.orm.em.fork();
  ({ hostId } = await em.findOneOrFail(Host, { region: 'local' }));
  const member = () => api.addUser(api.root);
  const account = () => api.addAccount('enterprise');
  const [disabledKey, deletedKey, disabledUser] = [await member(), await member(), await member()];
  const [owner, other, foreignRoot, admin] = [await member(), await member(), await account(), await account()];
  const suspended = await account();
  const operatorWhoIsNotRoot = await api.addUser(await account());
  callers = {
    'no key': null,
    'a wrong key': { ...owner, key: makeApiKey(randomBytes(32)) },
    'a disabled key': disabledKey,
    'a deleted key': deletedKey,
    'a disabled user': disabledUser,
    'a user': owner,
    'another user of the account': other,
    'the account root': api.root,
    'the root of another account': foreignRoot,
    'an operator of another account': admin,
    'an operator who is not root': operatorWhoIsNotRoot,
    'a suspended account': suspended,
    'a user with a token': { ...owner, token: () => createToken(owner) },
    'the account root with a token': { ...api.root, token: () => createToken(api.root) },
    'an expired token': { ...owner, token: () => createToken(owner, expire) },
    'a token that signed out': { ...owner, token: () => createToken(owner, 'delete from sessions') },
  };
  names = await createObjects(owner);
  suspendedNames = await createObjects(suspended);
  for (const caller of [owner, other, api.root, foreignRoot, admin]) await addUsage(caller);
  for (const caller of [other, api.root, foreignRoot, admin]) {
    await api.send(caller, 'POST', '/v1/sandboxes', {});
    await addNotification(caller);
    await addQuota(caller);
    await addWebhook(caller);
  }
  await em.nativeUpdate(User, { userId: api.root.userId }, { role: 'user' });
  const operators = [admin.userId, operatorWhoIsNotRoot.userId];
  await em.nativeUpdate(User, { userId: { $in: operators } }, { role: 'admin' });
  await em.nativeUpdate(User, { userId: disabledUser.userId }, { status: 'disabled' });
  await em.nativeUpdate(Account, { accountId: suspended.accountId }, { status: 'suspended' });
  await em.nativeUpdate(ApiKey, { keyId: disabledKey.keyId }, { isActive: false });
  await em.nativeDelete(ApiKey, { keyId: deletedKey.keyId });
});
afterAll(() => api.stop());

const tail = () => randomBytes(4).toString('hex');

async function createObjects(owner: Caller): Promise<Names> {
  const project = await api.send(owner, 'POST', '/v1/projects', { name: `project-${tail()}` });
  const { project_id: projectId } = project.body.data;
  const fields = { project_id: projectId, custom_ports: [{ port: 8080, name: 'web' }] };
  const sandbox = await api.send(owner, 'POST', '/v1/sandboxes', fields);
  const { sandbox_id: sandboxId } = sandbox.body.data;
  // There is no agent. Without an address no request waits for one.
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { agentAddress: null });
  return {
    sandbox_id: sandboxId,
    account_id: owner.accountId,
    host_id: hostId,
    alias: 'base',
    id: await addPayments(api.orm.em, owner.accountId),
    invoice_id: await addBilling(api.orm.em, owner.accountId),
    project_id: projectId,
    key_id: await addKey(owner),
    // Not the owner, whose key is still needed when a route deletes this user.
    user_id: (await api.addUser(owner)).userId,
    ...(await addImport(owner)),
    notification_id: await addNotification(owner),
    ...(await addQuota(owner)),
    ...(await addWebhook(owner)),
  };
}

async function addImport(owner: Caller): Promise<Pick<Names, 'template_id' | 'job_id'>> {
  const of = { accountId: owner.accountId, ownerUserId: owner.userId };
  const templateId = await api.addTemplate({ ...of, visibility: 'private' });
  const em = api.orm.em.fork();
  const jobId = newId('importJob');
  em.create(ImportJob, {
    ...{ ...of, jobId, templateId, status: 'running', maxRetries: 3 },
    ...{ externalImageUrl: 'a/b', registryImageUrl: 'c/d', registryPath: 'd' },
  });
  await em.flush();
  return { template_id: templateId, job_id: jobId };
}

/** The host is too small for the sandboxes of all callers of all routes. */
async function releaseCapacity(sandboxId: SandboxId): Promise<void> {
  const ended = { status: 'terminated' as const, holdsCompute: false, holdsDisk: false };
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, ended);
}

async function addNotification({ accountId, userId }: Caller): Promise<string> {
  const em = api.orm.em.fork();
  const id = newId('notification');
  em.create(Notification, {
    id,
    accountId,
    userId,
    title: 'A title',
    message: 'A message',
    type: 'test',
    category: 'test',
  });
  await em.flush();
  return id;
}

async function addUsage({ accountId, userId, projectId }: Caller): Promise<void> {
  await api.orm.em.fork().execute(
    `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount,
                               unit_price)
     values (?, ?, ?, ?, 'cpu_seconds', date_trunc('hour', now()), date_trunc('hour', now()) + interval '1 second', 1, 0)`,
    [newId('sandbox'), accountId, userId, projectId],
  );
}

/** Adds an endpoint with a delivery that has ended. */
async function addWebhook({ accountId, userId }: Caller): Promise<Pick<Names, 'endpoint_id' | 'delivery_id'>> {
  const em = api.orm.em.fork();
  const endpointId = newId('webhookEndpoint');
  const { url, event_types: eventTypes } = webhook;
  const endpoint = em.create(WebhookEndpoint, { endpointId, accountId, userId, url, eventTypes, publicKey: 'whpk_' });
  await em.flush();
  const delivery = await addTestDelivery(em, endpoint, newId('webhookDelivery'));
  await em.execute("update webhook_deliveries set status = 'delivered', relay_at = null");
  return { endpoint_id: endpointId, delivery_id: delivery.deliveryId };
}

/** Closes the user's earlier allocation and request, because there may be only one of each. */
async function addQuota({ accountId, userId }: Caller): Promise<Pick<Names, 'allocation_id' | 'request_id'>> {
  const em = api.orm.em.fork();
  await em.nativeUpdate(QuotaRequest, { userId, status: 'pending' }, { status: 'withdrawn' });
  const requestId = newId('quotaRequest');
  em.create(QuotaRequest, { requestId, accountId, userId, reason: 'more' });
  await em.flush();
  const allocationId = newId('quotaAllocation');
  const allocation = { allocationId, allocatedByUserId: userId, quota: toQuota({ template_storage_gb: 1 }) };
  await em.transactional((tx) => allocateQuota(tx, { accountId, userId }, allocation));
  return { allocation_id: allocationId, request_id: requestId };
}

async function addKey({ accountId, userId }: Caller): Promise<string> {
  const em = api.orm.em.fork();
  const [keyId, secret] = [newId('apiKey'), makeApiKey(randomBytes(32))];
  em.create(ApiKey, { keyId, accountId, userId, name: keyId, secretHash: hashApiKey(secret), prefix: 'spk' });
  await em.flush();
  return keyId;
}

// The column rounds to milliseconds, so `now()` may lie in its future.
const expire = "update sessions set expires_at = now() - interval '1 ms'";

/** A token of a new session. @param then the later change of the session */
async function createToken({ userId }: Caller, then?: string): Promise<string> {
  const attempt = { email: 'any@example.com', address: '192.0.2.1' };
  const session = await startSession(api.orm.em, { userId, passwordHash: null }, attempt);
  if (then) await api.orm.em.fork().execute(`${then} where session_id = ?`, [session!.sessionId]);
  return api.dependencies.accessTokens.make(session!, userId);
}

async function createHeaders(caller: (typeof callers)[Kind]): Promise<Record<string, string>> {
  if (!caller) return {};
  return caller.token ? { authorization: `Bearer ${await caller.token()}` } : { 'x-api-key': caller.key };
}

async function readOutcome(name: string, row: Row, caller: (typeof callers)[Kind], objects: Names) {
  const [method, url] = name.split(' ') as [string, string];
  const page = url.startsWith('/docs') ? 'sandboxes' : 'api';
  const address = url.replace(/\*$/, page).replaceAll(/:(\w+)/g, (_all, parameter: string) => {
    if (parameter === 'token') return api.dependencies.codecAccessTokens[0]!;
    if (parameter === 'issuer') return issuer.id;
    if (parameter === 'file') return 'SHA256SUMS';
    return parameter === 'port' ? '8080' : objects[parameter as keyof Names];
  });
  const reply = await api.app.inject({
    method: method as 'GET',
    url: address,
    headers: await createHeaders(caller),
    ...(row.body && { payload: row.body(objects) }),
    payloadAsStream: url === endless,
  });
  const isJson = String(reply.headers['content-type']).startsWith('application/json');
  let body = null;
  if (url !== endless) body = isJson ? reply.json() : null;
  else if (isJson) body = await json(reply.stream());
  else reply.stream().destroy();
  // Batches have a result for each object.
  const code: string | undefined = url.startsWith('/e2b/')
    ? codesOfE2b[body?.code]
    : (body?.code ?? body?.data?.results?.[0].code);
  if ([401, 403].includes(reply.statusCode)) return { body, outcome: `${reply.statusCode} ${code}` };
  return {
    body,
    outcome: ['not_found', 'route_not_found', 'method_not_allowed'].includes(code!) ? `404 ${code}` : 'in',
  };
}

/** All routes but the HEAD ones, which share the declaration of their GET route. */
const declared = () => api.app.routeAccess.filter(({ method }) => method !== 'HEAD');

test('every route is in the table with its declaration', () => {
  const rows = declared().map(({ method, url, access: { who, rows } }) => [`${method} ${url}`, { who, rows }]);
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(table).map(([name, { who, rows }]) => [name, { who, rows }])),
  );
});

test('the OpenAPI document shows who may call each route', () => {
  for (const [path, operations] of Object.entries<Json>(api.client.document.paths)) {
    for (const [method, operation] of Object.entries<Json>(operations)) {
      const name = `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`;
      const { who, rows } = table[name]!;
      expect([name, operation['x-access']]).toEqual([name, { who, rows }]);
      expect([name, operation.security?.length === 0]).toEqual([name, who === 'anyone']);
    }
  }
});

const withOwners = Object.entries(table).filter(([, row]) => row.owners);

test.each(withOwners)('%s shows only rows of the declared owners', async (name, row) => {
  const inAccount = ['a user', 'another user of the account', 'the account root'] as const;
  for (const kind of [...inAccount, 'the root of another account', 'an operator of another account'] as const) {
    const { userId } = callers[kind]!;
    const { body } = await readOutcome(name, row, callers[kind], names);
    const owners = new Set(row.owners!(body.data));
    expect([kind, owners.has(userId)]).toEqual([kind, true]);
    const isWide = row.rows === 'by_role' && name.startsWith('GET ') && kind === 'the account root';
    if (isWide) for (const member of inAccount) expect(owners).toContain(callers[member]!.userId);
    else expect([kind, ...owners]).toEqual([kind, userId]);
    const { accountId } = callers[kind]!;
    const accounts = await api.orm.em
      .fork()
      .find(User, { userId: { $in: [...owners] as UserId[] } }, { fields: ['accountId'] });
    expect(accounts.every((each) => each.accountId === accountId)).toBe(true);
  }
});

test.each(Object.entries(table))('%s', async (name, row) => {
  const outcomes: Record<string, string> = {};
  const wanted: Record<string, string> = {};
  for (const kind of kinds) {
    wanted[kind] = expected(name, row, kind);
    let objects = kind === 'a suspended account' ? suspendedNames : names;
    // Objects that a route changes or removes are made again for the next caller.
    if (wanted[kind] === 'in' && namesObject(name) && !name.startsWith('GET ')) {
      objects = await createObjects(callers['a user']!);
    }
    if (row.after) await readOutcome(row.after, table[row.after]!, callers[kind], objects);
    outcomes[kind] = (await readOutcome(name, row, callers[kind], objects)).outcome;
    if (![names, suspendedNames].includes(objects)) await releaseCapacity(objects.sandbox_id);
  }
  expect(outcomes).toEqual(wanted);
});

describe('declarations that no route has yet', () => {
  const extra = {
    '/for-root': accountRoot('account'),
    '/for-operators': operator('everything'),
    '/own': anyUser('own'),
    '/account': anyUser('account'),
  };

  test('are enforced, and give the handler its scope', async () => {
    const app = createApp(api.dependencies);
    app.register(async (scope) => {
      for (const [url, access] of Object.entries(extra)) {
        scope.get(url, { config: { access } }, async (request) => requireScope(request));
      }
    });
    const ask = async (kind: Kind, url: string) => {
      const reply = await app.inject({ url, headers: { 'x-api-key': callers[kind]!.key } });
      return reply.statusCode === 200 ? reply.json() : reply.json().code;
    };
    const { accountId, userId } = callers['a user']!;
    const foreign = callers['an operator of another account']!;
    const everyOne = ['a user', 'the account root', 'an operator of another account'] as const;
    const replies = await Promise.all(
      Object.keys(extra).map((url) => Promise.all(everyOne.map((kind) => ask(kind, url)))),
    );
    expect(replies).toEqual([
      ['root_required', { rows: 'account', accountId }, { rows: 'account', accountId: foreign.accountId }],
      ['admin_required', 'admin_required', { rows: 'everything' }],
      [
        { rows: 'user', accountId, userId },
        { rows: 'user', accountId, userId: api.root.userId },
        { rows: 'user', accountId: foreign.accountId, userId: foreign.userId },
      ],
      [
        { rows: 'account', accountId },
        { rows: 'account', accountId },
        { rows: 'account', accountId: foreign.accountId },
      ],
    ]);
    await app.close();
  });

  test('a route that declares nothing keeps the API from starting', async () => {
    const app = createApp(api.dependencies);
    app.register(async (scope) => {
      scope.get('/v1/undeclared', async () => ({}));
    });
    await expect(app.ready()).rejects.toThrow('GET /v1/undeclared does not declare who may call it');
    await app.close();
  });
});
