import { Notification } from '../../db/accounts/notification.entity.ts';
import { addNotification } from '../../db/accounts/notifications.ts';
import { newId } from '../../db/core/new-id.ts';
import { ImportJob } from '../../db/templates/import-job.entity.ts';
import { addBilling } from '../support/billing-rows.ts';
import { addPayments } from '../support/payment-rows.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let member: Caller;
let objects: Record<string, string>;

beforeAll(async () => {
  api = await startApi({ planName: 'team', env: processorSettings() });
  member = await api.addUser(api.root);
  const sandbox = await api.send(member, 'POST', '/v1/sandboxes', { name: 'theirs' });
  const project = await api.send(member, 'POST', '/v1/projects', { name: 'Theirs' });
  const quota = { cpu_seconds_monthly: 1, template_storage_gb: 1 };
  const request = await api.send(member, 'POST', '/v1/usage/quota-requests', { ...quota, reason: 'more' });
  const asked = { user_id: member.userId, ...quota };
  const allocation = await api.send(api.root, 'POST', '/v1/user-management/quota-allocations', asked);
  const wanted = { url: 'https://example.com/hooks', event_types: ['sandbox.*'] };
  const webhook = (await api.send(member, 'POST', '/v1/webhooks', wanted)).body.data;
  const delivery = await api.send(member, 'POST', `/v1/webhooks/${webhook.endpoint_id}/test`);
  const em = api.orm.em.fork();
  const { accountId, userId } = member;
  const about = { relatedEntityType: null, relatedEntityId: null };
  addNotification(em, {
    ...about,
    accountId,
    userId,
    title: 'Theirs',
    message: 'theirs',
    type: 'test',
    category: 'test',
  });
  await em.flush();
  const [notification] = await em.find(Notification, { userId });
  const owned = { accountId, ownerUserId: userId };
  const templateId = await api.addTemplate({ ...owned, visibility: 'private' });
  const jobId = newId('importJob');
  em.create(ImportJob, {
    ...{ ...owned, jobId, templateId, status: 'running', maxRetries: 3 },
    ...{ externalImageUrl: 'a/b', registryImageUrl: 'c/d', registryPath: 'd' },
  });
  await em.flush();
  objects = {
    port: '8080',
    account_id: member.accountId,
    invoice_id: await addBilling(api.orm.em, member.accountId),
    id: await addPayments(api.orm.em, member.accountId),
    sandbox_id: sandbox.body.data.sandbox_id,
    project_id: project.body.data.project_id,
    key_id: member.keyId,
    user_id: member.userId,
    endpoint_id: webhook.endpoint_id,
    delivery_id: delivery.body.data.delivery_id,
    notification_id: notification!.id,
    allocation_id: allocation.body.data.allocation_id,
    request_id: request.body.data.request_id,
    template_id: templateId,
    job_id: jobId,
  };
});
afterAll(() => api.stop());

/** The contract defines 403 for one kind of object. */
const notTheirs = ({ operationId }: Json) =>
  operationId === 'getInvoice' || operationId === 'getReceipt'
    ? [403, 'invoice_of_another_account']
    : [404, 'not_found'];

/** Bodies that the operations accept. */
const bodies: Record<string, Json> = {
  updateSandbox: { timeout: 600 },
  setSandboxTimeout: { timeout: 600 },
  updateProject: { name: 'Taken over' },
  updateApiKey: { name: 'taken over' },
  setApiKeyStatus: { is_active: false },
  createTemplateFromSandbox: { name: 'taken-over' },
  addSandboxPort: { port: 8080, name: 'web' },
  startExec: { command: 'true' },
  updateQuotaRequest: { cpu_seconds_monthly: 1, template_storage_gb: 1, reason: 'taken over' },
  reviewQuotaRequest: { action: 'approve' },
  updateQuotaAllocation: { concurrent_sandboxes: 1 },
  updateWebhook: { description: 'Taken over' },
  updateUser: { display_name: 'Taken over' },
  setTemplateDocument: { template_document: 'Taken over' },
  setTemplateStatus: { status: 'failed' },
  validateTemplate: { registry_image_url: 'registry.example.com/templates/web:latest' },
};

async function state(): Promise<string> {
  const em = api.orm.em.fork();
  const tables = [
    'sandboxes',
    'projects',
    'templates',
    'events',
    'notifications',
    'import_jobs',
    'quota_allocations',
    'quota_requests',
  ];
  const rows = await Promise.all(
    [...tables, 'webhook_endpoints', 'webhook_deliveries', 'payment_methods', 'payment_intents'].map((table) =>
      em.execute(`select * from ${table} order by 1`),
    ),
  );
  const keys = await em.execute('select key_id, name, is_active from api_keys order by 1');
  const users = await em.execute('select user_id, display_name, status from users where user_id = ?', [member.userId]);
  return JSON.stringify([...rows, keys, users]);
}

describe.each([
  ['another account', () => api.addAccount('team')],
  ['a colleague who is not root', () => api.addUser(api.root)],
])('to %s', (_name, makeCaller) => {
  test('every object is 404 on every route that names it, and is unchanged', async () => {
    const caller = await makeCaller();
    const before = await state();
    let tried = 0;
    for (const [template, item] of Object.entries<Json>(api.client.document.paths)) {
      if (!template.includes('{')) continue;
      const url = template.replaceAll(/\{([^}]+)\}/g, (_all, name) => objects[name]!);
      for (const [method, operation] of Object.entries<Json>(item)) {
        const body =
          operation.operationId === 'switchSandboxProject'
            ? { project_id: caller.projectId }
            : bodies[operation.operationId];
        const reply = await api.send(caller, method.toUpperCase(), url, body);
        // A caller who may not use the route gets that error before any object is looked up.
        const { who } = operation['x-access'];
        const isRefused = who === 'operator' || (caller.accountId === member.accountId && who === 'account_root');
        expect([operation.operationId, reply.status, reply.body.code]).toEqual([
          operation.operationId,
          ...(isRefused ? [403, who === 'operator' ? 'admin_required' : 'root_required'] : notTheirs(operation)),
        ]);
        tried++;
      }
    }
    expect(tried).toBeGreaterThanOrEqual(21);
    expect(await state()).toBe(before);
  });

  test('another account’s project cannot get a sandbox, and its sandboxes cannot be moved', async () => {
    const caller = await makeCaller();
    const own = await api.send(caller, 'POST', '/v1/sandboxes', {});
    const sandbox = own.body.data.sandbox_id;
    for (const [url, body] of [
      [`/v1/sandboxes/${sandbox}/switch-project`, { project_id: objects.project_id }],
      [`/v1/projects/${objects.project_id}/sandboxes/${sandbox}/add`, undefined],
      [`/v1/projects/${caller.projectId}/sandboxes/${objects.sandbox_id}/add`, undefined],
      [`/v1/projects/${objects.project_id}/sandboxes/${sandbox}/evict`, undefined],
    ] as const) {
      expect((await api.send(caller, 'POST', url, body)).status).toBe(404);
    }
  });
});

const needOthers = ['getActiveExec', 'streamExec', 'getWebrtcTurnCredential', 'getReceipt'];

test("the account root may read and change everything of the account's users", async () => {
  for (const [template, item] of Object.entries<Json>(api.client.document.paths)) {
    if (!template.includes('{') || !item.get || item.get['x-access'].who === 'anyone') continue;
    const url = template.replaceAll(/\{([^}]+)\}/g, (_all, name) => objects[name]!);
    const { status, body } = await api.send(api.root, 'GET', url);
    // Notifications belong only to their reader.
    if (item.get['x-access'].rows === 'own') {
      expect([template, status]).toEqual([template, 404]);
      continue;
    }
    // Agents, a TURN server and paid invoices are missing here, but a caller without access would get 404.
    if (needOthers.includes(item.get.operationId)) expect([template, body.code]).not.toEqual([template, 'not_found']);
    else expect([template, status]).toEqual([template, 200]);
  }
  const paused = await api.send(api.root, 'POST', `/v1/sandboxes/${objects.sandbox_id}/pause`);
  expect(paused.body.data).toMatchObject({ status: 'paused', owner: { user_id: member.userId } });
});

test('an invalid id is 404 like a missing object', async () => {
  for (const id of ['sbx-none', 'nonsense', 'SBX-ABC', "sbx-a'--", '%F0%9F%92%A5', 'tpl-abc']) {
    expect((await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/projects/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/api-keys/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/templates/${id}`)).status).toBe(404);
  }
});
