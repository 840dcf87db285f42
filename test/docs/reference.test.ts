import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createAccount, type MadeAccount } from '../../db/accounts/accounts.ts';
import { beginReconciliation, endReconciliation } from '../../db/billing/reconciliations.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { freePort } from '../support/free-port.ts';
import { IdentityProviderServer } from '../support/identity-provider.ts';
import { TestProcessor } from '../support/payment-processor.ts';
import { pushImage } from '../support/pushed-image.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { registryAddress, type TestDatabase, testDatabase, testNamespace } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';
import { showMoney } from './reference-money.ts';
import { type Json, ReferenceRecorder } from './reference-recorder.ts';

/**
 * Calls every operation of the reference with its example on a whole platform. Its reply must be the example in the
 * reference. A new operation needs a step here, and then:
 *
 *     UPDATE_EXAMPLES=1 npm test -- test/docs/reference.test.ts
 */
let platform: RunningPlatform;
let database: TestDatabase;
let orm: Orm;
let account: MadeAccount;
let there: IdentityProviderServer;
let processor: TestProcessor;
let receiver: WebhookReceiver;
let registry: string;
let recorder: ReferenceRecorder;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'reference-'));
const rootEmail = 'ada@example.com';

beforeAll(async () => {
  const [temporal, port] = await Promise.all([testNamespace(), freePort()]);
  [database, registry, processor, receiver] = await Promise.all([
    testDatabase(),
    registryAddress(),
    TestProcessor.start(),
    WebhookReceiver.start(),
  ]);
  orm = await createOrm(database.url, 2);
  account = (await bootstrap(orm, { email: rootEmail, planName: 'enterprise', baseImage: 'builtin:base' }))!;
  const url = `http://127.0.0.1:${port}`;
  fs.writeFileSync(path.join(folder, 'secret'), 'of the platform\n');
  const client = { clientId: 'corp', clientSecret: 'of the platform' };
  there = await IdentityProviderServer.start({
    clients: [{ ...client, redirectUri: `${url}/v1/auth/oidc/corp/callback` }],
  });
  const issuer = {
    ...{ id: 'corp', issuer: there.issuer, client_id: 'corp', client_secret_file: path.join(folder, 'secret') },
    ...{ label: 'Example Corp', account_id: account.accountId, domains: ['example.com'], create_users: true },
  };
  platform = new RunningPlatform({
    ...{ DATABASE_URL: database.url, PLATFORM_REGISTRY: registry, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' },
    ...{ PLATFORM_API_PORT: String(port), TEMPORAL_ADDRESS: temporal.address, TEMPORAL_NAMESPACE: temporal.namespace },
    ...{ PLATFORM_TURN_SECRET: 'of the TURN server', PLATFORM_TURN_PUBLIC_HOST: 'turn.example.com' },
    ...{ ...processor.env, PLATFORM_OIDC_ISSUERS: JSON.stringify([issuer]) },
  });
  await platform.start();
  const document = await (await fetch(`${url}/openapi.json`)).json();
  recorder = new ReferenceRecorder(url, account.apiKey, document);
  recorder.replaced.push(
    [new RegExp(there.issuer, 'g'), 'https://accounts.example.com'],
    [new RegExp(`127\\.0\\.0\\.1:${port}`, 'g'), '127.0.0.1:7080'],
    [new RegExp(registry.replaceAll('.', '\\.'), 'g'), 'registry.example.com'],
    [/sandbox\.localhost:\d+/g, 'sandbox.localhost:7081'],
    [new RegExp(receiver.url, 'g'), 'https://example.com/hooks'],
    [/127\.0\.0\.1:9\//g, 'docker.io/'],
  );
}, 180_000);

afterAll(async () => {
  await platform?.stop();
  await platform?.hostRemains();
  platform?.removeData();
  await Promise.all([there?.stop(), processor?.stop(), receiver?.stop()]);
  await orm?.close();
  await database?.drop();
  fs.rmSync(folder, { recursive: true });
}, 180_000);

test('every operation returns its example', async () => {
  await showAccount();
  await showSandboxes();
  await showTemplates();
  await showUsersAndQuotas();
  await showNotifications();
  await showWebhooks();
  await showMoney({ recorder, orm, processor });
  await showOperation();
  await showSignIns();
  if (process.env.UPDATE_EXAMPLES) recorder.write();
  const missing = 'operations without a step in this file';
  expect({ [missing]: left() }).toEqual({ [missing]: [] });
  expect(recorder.differences()).toEqual([]);
}, 600_000);

const left = () => recorder.operations.filter((id) => !recorder.shown.has(id));
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, timeout: 3600 };
const newSandbox = async (name: string): Promise<string> =>
  (await recorder.call('createSandbox', { body: { ...small, name } })).body.data.sandbox_id;

async function showAccount(): Promise<void> {
  for (const operation of ['getHealth', 'getReadiness', 'listPlatformRegions', 'listPlans', 'getProfile']) {
    await recorder.show(operation);
  }
  recorder.objects.user_id = account.userId;
  recorder.objects.account_id = account.accountId;
  await recorder.show('updateAccount');
  await recorder.show('updateProfile');

  const key = await recorder.show('createApiKey');
  const params = { key_id: key.key_id };
  await recorder.show('listApiKeys');
  await recorder.show('getApiKey', { params });
  await recorder.show('updateApiKey', { params });
  await recorder.show('setApiKeyStatus', { params });
  await recorder.show('deleteApiKey', { params });

  const { project_id: projectId } = await recorder.show('createProject');
  recorder.objects.project_id = projectId;
  await recorder.show('listProjects');
  await recorder.show('getProject');
}

async function showSandboxes(): Promise<void> {
  const { sandbox_id: sandboxId } = await recorder.show('createSandbox');
  recorder.objects.sandbox_id = sandboxId;
  await recorder.show('updateSandbox');
  await recorder.show('setSandboxTimeout', { body: { timeout: 3600 } });
  await recorder.show('getSandbox');
  await recorder.show('getSandboxStatus');
  await recorder.show('listSandboxPorts');

  const other = { sandbox_id: await newSandbox('other') };
  await recorder.show('addSandboxPort', { params: other });
  await recorder.show('removeSandboxPort', { params: { ...other, port: '8000' } });
  const rtc = { port: 9000, name: 'video', protocol: 'WEBRTC' };
  await recorder.call('addSandboxPort', { params: other, body: rtc });
  await recorder.show('getWebrtcTurnCredential', { params: other });

  const { stream_path: stream } = await recorder.show('startExec');
  const token = new URLSearchParams(stream.split('?')[1]).get('token')!;
  await recorder.show('streamExec', { query: { token }, authorization: null });
  await recorder.call('startExec', { body: { command: 'exec sleep 600' } });
  await recorder.show('getActiveExec');
  await recorder.show('cancelExec');

  await recorder.show('switchSandboxProject');
  await recorder.show('evictSandboxFromProject');
  await recorder.show('addSandboxToProject');
  await recorder.show('listProjectSandboxes');
  await recorder.show('updateProject');
  const empty = (await recorder.call('createProject', { body: { name: 'Old website' } })).body.data.project_id;
  await recorder.show('deleteProject', { params: { project_id: empty } });

  await recorder.show('createTemplateFromSandbox', { params: other });
  await showLiveEvents(async () => {
    await recorder.show('pauseSandbox');
    await recorder.show('resumeSandbox');
  });
  await recorder.show('connectSandbox');
  await recorder.show('restartSandbox');
  await until(async () => (await recorder.call('getSandboxMetrics')).body.data.metrics.length > 0);
  await recorder.show('getSandboxMetrics');
  await recorder.show('getSandboxMetricsChart');
  await recorder.show('getSandboxStats');
  await recorder.show('listSandboxEvents');
  await recorder.show('listNewestEvents', { query: { limit: '2' } });
  await recorder.show('getSandboxCost');
  await recorder.show('getSandboxWorkflow');
  await recorder.show('listSandboxes');

  const ended = { sandbox_id: await newSandbox('ended') };
  await recorder.show('terminateSandbox', { params: ended });
  await recorder.show('deleteSandbox', { params: ended });
  const ids = { sandbox_ids: [await newSandbox('batch')] };
  await recorder.show('batchPauseSandboxes', { body: ids });
  const status = async () =>
    (await recorder.call('getSandboxStatus', { params: { sandbox_id: ids.sandbox_ids[0]! } })).body.data.status;
  await until(async () => (await status()) === 'paused');
  await recorder.show('batchResumeSandboxes', { body: ids });
  await until(async () => (await status()) === 'running');
  await recorder.show('batchTerminateSandboxes', { body: ids });
  await recorder.show('batchDeleteSandboxes', { body: { ...ids, force: true } });
}

/** Shows the beginning of the stream of events, and what it has of the pause of a sandbox. */
async function showLiveEvents(pause: () => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const headers = { 'x-api-key': account.apiKey };
  const reply = await fetch(`${recorder.url}/v1/events/stream`, { headers, signal: stop.signal });
  await pause();
  let text = '';
  for await (const chunk of reply.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (/^event: sandbox.paused\n.*\n\n/m.test(text)) break;
  }
  stop.abort();
  const [ready, ...events] = text.split('\n\n');
  const paused = events.find((each) => each.includes('event: sandbox.paused'));
  recorder.keep('streamEvents', reply.status, `${ready}\n\n${paused}\n\n`);
}

async function showTemplates(): Promise<void> {
  const { template_id: templateId } = await recorder.show('createTemplate');
  const params = { template_id: templateId };
  recorder.objects.template_id = templateId;
  await recorder.show('setTemplateDocument');
  await recorder.show('getTemplateDocument');
  await recorder.show('setTemplateStatus');
  const image = `${registry}/${account.userId}/web:latest`;
  await pushImage(`http://${registry}`, `${account.userId}/web`);
  await recorder.show('validateTemplate', { body: { registry_image_url: image } });
  await recorder.show('updateTemplate');
  await recorder.show('getTemplate');
  await recorder.show('listTemplates', { query: { status: 'available' } });
  await recorder.show('shareTemplate');
  await recorder.show('unshareTemplate');
  await recorder.show('getTemplateStorageUsage');
  await recorder.show('deleteTemplateDocument');
  await recorder.show('deleteTemplate', { params });

  // No server listens at this address, so the copy is retried until it is cancelled.
  const external = '127.0.0.1:9/library/python:3.13';
  const body = { name: 'python-app', external_image_url: external };
  const imported = { template_id: (await recorder.show('importTemplate', { body })).template_id };
  await recorder.show('getTemplateImport', { params: imported });
  await recorder.show('listImportJobs');
  await recorder.show('cancelTemplateImport', { params: imported });
  const again = await recorder.show('startTemplateImport', { params: imported });
  recorder.objects.job_id = again.job_id;
  await recorder.show('getImportJob');
  await recorder.show('cancelImportJob');
}

/** Shows a user who can sign in, and the token of a session. */
async function showUsersAndQuotas(): Promise<void> {
  const created = await recorder.show('createUser');
  const user = { user_id: created.user.user_id as string };
  await recorder.show('listUsers');
  await recorder.show('getUser', { params: user });
  const password = await passwordFor(created);
  const signIn = async () =>
    (await recorder.show('signIn', { body: { email: created.user.email, password }, authorization: null }))
      .access_token;
  const authorization = `Bearer ${await signIn()}`;

  const request = await recorder.show('createQuotaRequest', { authorization });
  const params = { request_id: request.request_id };
  await recorder.show('updateQuotaRequest', { params, authorization });
  await recorder.show('listQuotaRequests', { authorization });
  await recorder.show('withdrawQuotaRequest', { params, authorization });
  const { body } = await recorder.call('createQuotaRequest', { authorization });
  await recorder.show('listQuotaRequestsOfAccount');
  await recorder.show('reviewQuotaRequest', { params: { request_id: body.data.request_id } });
  await recorder.show('getQuota', { authorization });
  const quota = { user_id: user.user_id, concurrent_sandboxes: 5 };
  const { allocation_id } = await recorder.show('createQuotaAllocation', { body: quota });
  await recorder.show('updateQuotaAllocation', { params: { allocation_id } });
  await recorder.show('listQuotaAllocations');
  await recorder.show('revokeQuotaAllocation', { params: { allocation_id } });
  await recorder.show('deleteQuotaAllocation', { params: { allocation_id } });
  // Each request is a notification to the root user.
  for (let number = 0; number < 4; number++) {
    const made = (await recorder.call('createQuotaRequest', { authorization })).body.data.request_id;
    await recorder.call('withdrawQuotaRequest', { params: { request_id: made }, authorization });
  }
  await recorder.show('getUsageSummary');
  await recorder.show('getUsageAnalytics');
  await recorder.show('listUsageSessions');
  await recorder.show('listUsageEvents');

  await recorder.show('getSession', { authorization });
  await recorder.show('startSession', { body: { email: created.user.email, password }, authorization: null });
  await recorder.show('endSession', { authorization: `Bearer ${await signIn()}` });
  await recorder.show('signOut', { authorization });
  const changed = { current_password: password, new_password: 'seven-brown-otters-9' };
  await recorder.show('changePassword', { body: changed, authorization: `Bearer ${await signIn()}` });
  await recorder.show('updateUser', { params: user });
  await recorder.show('listAuditEvents', { query: { action: 'updateUser' } });
  await recorder.show('deleteUser', { params: user });
}

async function newUser(username: string): Promise<{ userId: string; email: string; password: string }> {
  const email = `${username}@example.com`;
  const created = (await recorder.call('createUser', { body: { email, username, role: 'user' } })).body.data;
  return { userId: created.user.user_id, email, password: await passwordFor(created) };
}

/** The password of a new user: the initial one, or one that is set with the link in their mail. */
async function passwordFor({ initial_password: initial, user }: Json): Promise<string> {
  if (initial) return initial;
  const password = 'four-green-herons-7';
  const body = { token: await mailedToken(user.email), new_password: password };
  await recorder.call('resetPassword', { body, authorization: null });
  return password;
}

/** The token in the newest mail to an address. */
async function mailedToken(email: string): Promise<string> {
  const mails = path.join(platform.dataDir, 'mails');
  let token: string | undefined;
  await until(() => {
    const files = fs.existsSync(mails) ? fs.globSync(`${mails}/*.eml`) : [];
    const newest = files.sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs);
    const texts = newest.map((file) => fs.readFileSync(file, 'utf8').replaceAll('=\r\n', '').replaceAll('=3D', '='));
    const mail = texts.find((text) => new RegExp(`^To: .*${email}`, 'mi').test(text) && !used.has(text));
    token = mail && /token=([\w-]+)/.exec(mail)?.[1];
    if (token) used.add(mail!);
    return token !== undefined;
  });
  return token!;
}
const used = new Set<string>();

async function showNotifications(): Promise<void> {
  const { notifications } = await recorder.show('listNotifications');
  const [first, second] = notifications.map((each: Json) => each.id);
  recorder.objects.notification_id = first;
  const params = { notification_id: first };
  await recorder.show('getNotification', { params });
  await recorder.show('markNotificationRead', { params });
  await recorder.show('markNotificationUnread', { params });
  await recorder.show('bulkMarkNotificationsRead');
  await recorder.show('bulkMarkNotificationsUnread');
  await recorder.show('markAllNotificationsRead');
  await recorder.show('deleteNotification', { params: { notification_id: second } });
  await recorder.show('bulkDeleteNotifications');
  await recorder.show('deleteAllNotifications');
}

async function showWebhooks(): Promise<void> {
  await recorder.show('listEventTypes');
  const body = { url: receiver.url, event_types: ['sandbox.*'], description: 'Notifies the build server' };
  const { endpoint_id: endpointId } = await recorder.show('createWebhook', { body });
  recorder.objects.endpoint_id = endpointId;
  await recorder.show('listWebhooks');
  await recorder.show('updateWebhook');
  await recorder.show('rollWebhookSecret');
  const { delivery_id: deliveryId } = await recorder.show('sendTestEvent');
  recorder.objects.delivery_id = deliveryId;
  await until(async () => (await recorder.call('getWebhookDelivery')).body.data.status === 'delivered');
  await recorder.show('getWebhookDelivery');
  await recorder.show('listWebhookDeliveries');
  await recorder.show('redeliverWebhookDelivery');
  await recorder.show('getWebhook');
  await recorder.show('deleteWebhook');
}

/** Shows what operators read and change. */
async function showOperation(): Promise<void> {
  const other = await orm.em.fork().transactional((em) => {
    const wanted = { email: 'lovelace@example.com', displayName: 'Engines', planName: 'hobby', role: 'user' as const };
    return createAccount(em, wanted);
  });
  await recorder.show('listAccounts');
  await recorder.show('setAccountStatus', { params: { account_id: other.accountId } });
  const { hosts } = await recorder.show('listHosts');
  const params = { host_id: hosts[0].host_id as string };
  await recorder.show('drainHost', { params });
  await recorder.show('undrainHost', { params });
  await recorder.show('getWorkers');
  const em = orm.em.fork();
  const lastError = 'there is no workflow type ofAnotherVersion';
  const dead = { workflowType: 'ofAnotherVersion', workflowId: account.userId, input: {}, attempts: 10, lastError };
  const entry = em.create(OutboxEntry, { ...dead, refusals: 10, deadAt: new Date() });
  await em.flush();
  await recorder.show('listDeadLetters');
  await recorder.show('retryDeadLetter', { params: { id: entry.id } });
  await beginReconciliation(orm.em, 'rec-3f0e6d7a-5a52-4a2f-9d0e-0c9a6f1b2c3d', true);
  await endReconciliation(orm.em, 'rec-3f0e6d7a-5a52-4a2f-9d0e-0c9a6f1b2c3d');
  await recorder.show('getLatestReconciliation');
}

async function showSignIns(): Promise<void> {
  const issuer = { issuer: 'corp' };
  await recorder.show('listIdentityProviders', { authorization: null });
  const begun = await recorder.call('startOidcSignIn', { params: issuer, authorization: null });
  recorder.shown.set('startOidcSignIn', { status: begun.status });
  const cookie = begun.headers.getSetCookie()[0]!.split(';')[0]!;
  const person = { sub: '108234567890', email: 'lin@example.com', email_verified: true, name: 'Lin' };
  const back = await there.signIn(begun.headers.get('location')!, person);
  const query = Object.fromEntries(back.searchParams);
  await recorder.show('finishOidcSignIn', { params: issuer, query, headers: { cookie }, authorization: null });

  await recorder.show('forgotPassword', { body: { email: rootEmail }, authorization: null });
  const body = { token: await mailedToken(rootEmail), new_password: 'seven-brown-otters-9' };
  await recorder.show('resetPassword', { body, authorization: null });
  const [mary, kay] = [await newUser('mary'), await newUser('kay')];
  const signIn = { email: mary.email, password: mary.password };
  const session = (await recorder.call('signIn', { body: signIn, authorization: null })).body.data;
  await recorder.show('requestPasswordReset', { authorization: `Bearer ${session.access_token}` });
  await recorder.show('resetUserPassword', { params: { user_id: kay.userId } });

  const change = { current_email: rootEmail, new_email: 'engines@example.com' };
  await recorder.show('requestEmailChange', { body: change });
  await recorder.show('getEmailChangeStatus');
  const token = await mailedToken(change.new_email);
  await recorder.show('confirmEmailChange', { body: { token }, authorization: null });
  await recorder.show('clearEmailChangeRequests');
  await recorder.show('getMetrics');
}
