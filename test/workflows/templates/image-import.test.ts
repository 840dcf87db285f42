import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Notification } from '../../../db/accounts/notification.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { requestStart } from '../../../db/core/outbox.ts';
import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import { ImportJob } from '../../../db/templates/import-job.entity.ts';
import { endSweep } from '../../../db/templates/registry-sweeps.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { ImportJobId, TemplateId } from '../../../domain/ids.ts';
import type { Json } from '../../api/contract-client.ts';
import { type Caller, startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { anyLayer, hasManifest, pushImage } from '../../support/pushed-image.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { RegistryFront } from '../../support/registry-front.ts';
import { registryAddress } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** With RECORD_HISTORIES=1 the histories are stored for the replay tests. */
const recording = process.env.RECORD_HISTORIES === '1';
const secret = 'a-registry-password';
let origin: string;
let plane: ControlPlane;
let api: TestApi;
let front: RegistryFront;
let user: Caller;
let name: string;

beforeAll(async () => {
  const address = await registryAddress();
  origin = `http://${address}`;
  const env = {
    PLATFORM_REGISTRY: address,
    PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
    PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
  };
  plane = await startControlPlane({ driver: new MemoryDriver(), env });
  const { orm, account, commands } = plane;
  api = await startApi({ on: { orm, account, commands }, env });
  user = await api.addUser(api.root);
}, 120_000);
afterAll(async () => {
  await api.stop();
  await plane.stop();
});
beforeEach(async () => {
  name = `t${randomBytes(5).toString('hex')}`;
  front = await RegistryFront.start(await registryAddress());
});
afterEach(() => front.stop());

/** Returns the error of a refused request, or the data of an accepted one. */
async function send(method: string, url: string, body?: Json, caller = user): Promise<Json> {
  const reply = await api.send(caller, method, url, body);
  return reply.status < 300 ? reply.body.data : [reply.status, reply.body.code];
}

const requestImport = (more: Json = {}, caller = user) =>
  send(
    'POST',
    '/v1/templates/import',
    { name, external_image_url: `${front.address}/source/${name}`, ...more },
    caller,
  );

async function settled(jobId: ImportJobId): Promise<Json> {
  let job: Json;
  await until(async () => {
    job = await send('GET', `/v1/import-jobs/${jobId}`);
    return !['pending', 'running'].includes(job.status);
  }, 60_000);
  return job;
}

async function closed(workflowId: string, historyName?: string): Promise<string> {
  const handle = plane.client.workflow.getHandle(workflowId);
  await until(async () => (await handle.describe()).status.name !== 'RUNNING', 60_000);
  if (recording && historyName) await recordHistory(plane.client, historyName, workflowId);
  return (await handle.describe()).status.name;
}

const template = (templateId: TemplateId) => plane.orm.em.fork().findOneOrFail(Template, { templateId });

test('a private image becomes a template, and sandboxes can be made from it', async () => {
  front.password = { username: 'ada', password: secret };
  const pushed = await pushImage(origin, `source/${name}`, { layers: [anyLayer(200_000)] });
  const webhook = await send('POST', '/v1/webhooks', { url: 'https://example.com/', event_types: ['template.*'] });
  const begun = await requestImport({ external_registry_username: 'ada', external_registry_password: secret });
  expect(begun).toMatchObject({ name, visibility: 'private', message: 'The import is started' });
  expect(['pending', 'running']).toContain(begun.status);
  const job = await settled(begun.job_id);
  expect(job).toMatchObject({
    ...{ status: 'completed', progress_percentage: 100, retry_count: 0, max_retries: 3, error_message: null },
    ...{ started_at: expect.any(String), completed_at: expect.any(String), template_id: begun.template_id },
    skopeo_logs: expect.stringContaining('Copying blob'),
    last_log_message: expect.stringContaining('copied'),
  });
  expect(await closed(begun.job_id, 'image-import-completed')).toBe('COMPLETED');
  const row = await template(begun.template_id);
  expect(row).toMatchObject({
    ...{ status: 'available', customImageSource: 'imported', registryPassword: null, imageSizeBytes: pushed.sizeBytes },
    image: `registry:${user.userId}/${name}@${pushed.digest}`,
  });
  const { data } = (await api.send(user, 'POST', '/v1/sandboxes', { template: name })).body;
  expect(data.template_id).toBe(begun.template_id);
  const em = plane.orm.em.fork();
  expect(await em.find(Event, { objectId: begun.template_id })).toMatchObject([
    { type: 'template.uploaded', sequence: 1 },
  ]);
  const { deliveries } = await send('GET', `/v1/webhooks/${webhook.endpoint_id}/deliveries`);
  expect(deliveries).toMatchObject([{ event_type: 'template.uploaded' }]);
  expect(await em.find(Notification, { relatedEntityId: begun.template_id })).toMatchObject([
    { type: 'template_import_completed', userId: user.userId },
  ]);
  const { events } = await plane.client.workflow.getHandle(begun.job_id).fetchHistory();
  expect(`${JSON.stringify(events)}${JSON.stringify(job)}${api.log.join()}`).not.toContain(secret);
  const again = await send('POST', `/v1/templates/${begun.template_id}/import`);
  expect(again).toEqual([400, 'template_already_imported']);
  expect(await send('GET', `/v1/templates/${begun.template_id}/import`)).toMatchObject({ job_id: begun.job_id });
  expect(await send('DELETE', `/v1/templates/${begun.template_id}/import`)).toEqual([404, 'not_found']);
  expect(await send('DELETE', `/v1/import-jobs/${begun.job_id}`)).toEqual([409, 'import_not_active']);
});

test('a wrong password fails at once, with a clear text; with the right one the import succeeds', async () => {
  front.password = { username: 'ada', password: secret };
  await pushImage(origin, `source/${name}`);
  const begun = await requestImport({ external_registry_username: 'ada', external_registry_password: 'guess' });
  const job = await settled(begun.job_id);
  expect(job).toMatchObject({ status: 'failed', retry_count: 0, error_message: 'The registry refuses access' });
  expect(await closed(begun.job_id, 'image-import-failed')).toBe('FAILED');
  expect(await template(begun.template_id)).toMatchObject({ status: 'failed', buildErrorMessage: job.error_message });
  const url = `/v1/templates/${begun.template_id}`;
  await send('PUT', url, { external_registry_password: secret });
  const second = await send('POST', `${url}/import`);
  expect(second.message).toBe('The import is started');
  expect((await settled(second.job_id)).status).toBe('completed');
  const newest = await send('GET', `${url}/import`);
  expect([newest.job_id, newest.progress_percentage]).toEqual([second.job_id, 100]);
});

test('an import whose registry cannot be reached says so while it tries again, and no longer when it has succeeded', async () => {
  await pushImage(origin, `source/${name}`);
  await front.stop();
  const given = { external_registry_username: 'ada', external_registry_password: secret };
  const begun = await requestImport(given);
  let job: Json;
  await until(async () => {
    job = await send('GET', `/v1/import-jobs/${begun.job_id}`);
    return job.error_message !== null;
  });
  const reason = `${front.address} cannot be reached`;
  expect(job).toMatchObject({ status: 'running', error_message: reason, last_log_message: `failed: ${reason}` });
  expect(JSON.stringify(job)).not.toContain(secret);
  front = await RegistryFront.start(await registryAddress(), undefined, Number(front.address.split(':')[1]));
  expect(await settled(begun.job_id)).toMatchObject({ status: 'completed', retry_count: 1, error_message: null });
}, 60_000);

test('one import at a time; a cancel ends it at once, leaves nothing in the registry, and another may begin', async () => {
  await pushImage(origin, `source/${name}`, { layers: [anyLayer(4_000_000)] });
  front.fault = { stallsAfter: 1_000_000 };
  const begun = await requestImport();
  const url = `/v1/templates/${begun.template_id}`;
  expect(await send('POST', `${url}/import`)).toEqual([409, 'import_in_progress']);
  expect(await send('PUT', `${url}/status`, { status: 'available' })).toEqual([409, 'import_in_progress']);
  await until(async () => (await send('GET', `/v1/import-jobs/${begun.job_id}`)).progress_percentage > 0, 60_000);
  const { jobs } = await send('GET', `/v1/import-jobs?template_id=${begun.template_id}`);
  expect(jobs).toMatchObject([{ job_id: begun.job_id, status: 'running' }]);
  const cancelled = await send('DELETE', `${url}/import`);
  expect(cancelled).toEqual({ job_id: begun.job_id, status: 'cancelled', message: expect.any(String) });
  expect(await closed(begun.job_id, 'image-import-cancelled')).toBe('COMPLETED');
  expect(await hasManifest(origin, `${user.userId}/${name}`, 'latest')).toBe(false);
  expect((await template(begun.template_id)).status).toBe('pending');
  expect((await send('GET', '/v1/import-jobs?status=cancelled')).jobs).toMatchObject([{ job_id: begun.job_id }]);
  front.fault = {};
  const second = await send('POST', `${url}/import`);
  expect((await settled(second.job_id)).status).toBe('completed');
});

test('an image beyond the quota of the user is refused before it is copied; storage counts shared layers once', async () => {
  const member = await api.addUser(api.root);
  const layers = [anyLayer(500_000)];
  const usage = async () => (await send('GET', '/v1/templates/storage-usage', undefined, member)).used_gb * 1024 ** 3;
  const before = await usage();
  const quota = (gb: number) =>
    send(
      'POST',
      '/v1/user-management/quota-allocations',
      { user_id: member.userId, template_storage_gb: gb },
      api.root,
    );
  await quota(0.0006);
  const createJob = async (more: object[]) => {
    name = `t${randomBytes(5).toString('hex')}`;
    await pushImage(origin, `source/${name}`, { layers: [...layers, ...(more as typeof layers)] });
    const body = { name, external_image_url: `${front.address}/source/${name}` };
    const begun = await send('POST', '/v1/templates/import', body, member);
    let job: Json;
    await until(async () => {
      job = await send('GET', `/v1/import-jobs/${begun.job_id}`, undefined, member);
      return ['completed', 'failed'].includes(job.status);
    }, 60_000);
    return job;
  };
  expect((await createJob([])).status).toBe('completed');
  expect((await createJob([anyLayer(10_000)])).status).toBe('completed');
  const used = (await usage()) - before;
  expect([used > 510_000, used < 530_000]).toEqual([true, true]);
  const refused = await createJob([anyLayer(200_000)]);
  expect(refused).toMatchObject({ status: 'failed', retry_count: 0, error_message: expect.stringContaining('quota') });
  expect(front.asked.filter((line) => line.startsWith(`GET /v2/source/${name}/blobs`)).length).toBeLessThanOrEqual(1);
});

test('with a user, private images leave the registry and imports end; shared images stay with a new owner', async () => {
  const member = await api.addUser(api.root);
  const as = async (method: string, url: string, body?: Json) => send(method, url, body, member);
  const imported = async () => {
    name = `t${randomBytes(5).toString('hex')}`;
    await pushImage(origin, `source/${name}`, { layers: [anyLayer(400_000)] });
    const begun = await as('POST', '/v1/templates/import', {
      name,
      external_image_url: `${front.address}/source/${name}`,
    });
    return { name, templateId: begun.template_id as TemplateId, jobId: begun.job_id as ImportJobId };
  };
  const completed = async () => {
    const begun = await imported();
    await until(async () => (await as('GET', `/v1/import-jobs/${begun.jobId}`)).status === 'completed', 60_000);
    return begun;
  };
  const [own, shared] = [await completed(), await completed()];
  await as('POST', `/v1/templates/${shared.templateId}/share`);
  front.fault = { stallsAfter: 100_000 };
  const slow = await imported();
  await until(async () => (await as('GET', `/v1/import-jobs/${slow.jobId}`)).progress_percentage > 0, 60_000);
  expect(await send('DELETE', `/v1/user-management/users/${member.userId}`, undefined, api.root)).toMatchObject({
    deletion_status: 'in_progress',
  });
  await until(async () => (await plane.orm.em.fork().count(User, { userId: member.userId })) === 0, 60_000);
  expect(await closed(slow.jobId)).toBe('COMPLETED');
  await until(async () => !(await hasManifest(origin, `${member.userId}/${own.name}`, 'latest')), 60_000);
  expect(await hasManifest(origin, `${member.userId}/${slow.name}`, 'latest')).toBe(false);
  expect(await hasManifest(origin, `${member.accountId}/${shared.name}`, 'latest')).toBe(true);
  expect(await template(shared.templateId)).toMatchObject({ ownerUserId: api.root.userId, status: 'available' });
  const em = plane.orm.em.fork();
  expect(await em.find(ImportJob, { jobId: { $in: [own.jobId, shared.jobId, slow.jobId] } })).toMatchObject([
    { jobId: shared.jobId, ownerUserId: api.root.userId },
  ]);
});

test('an image that is larger in its manifest than in the registry is refused, and blocks no other import', async () => {
  const root = await api.addAccount();
  const importing = async (claimed?: (size: number) => number) => {
    name = `t${randomBytes(5).toString('hex')}`;
    await pushImage(origin, `source/${name}`, { layers: [anyLayer(50_000)], ...(claimed && { claimed }) });
    const { job_id: jobId, template_id: templateId } = await requestImport({ visibility: 'account_shared' }, root);
    let job: Json;
    await until(async () => {
      job = await send('GET', `/v1/import-jobs/${jobId}`, undefined, root);
      return ['completed', 'failed'].includes(job.status);
    }, 60_000);
    const { status, imageSizeBytes } = await template(templateId);
    return { ...job, template: { status, bytes: imageSizeBytes ?? null } };
  };
  const failed = { status: 'failed', retry_count: 0, template: { status: 'failed', bytes: null } };
  expect(await importing(() => 10 ** 15)).toMatchObject({
    ...failed,
    error_message: 'The plan allows 10 GB of images of templates; delete some first',
  });
  expect(await importing((size) => size + 10 ** 9)).toMatchObject({
    ...failed,
    error_message: expect.stringMatching(
      /^The manifest of the image says that sha256:\w+ has \d+ bytes, but it has \d+$/,
    ),
  });
  expect(await send('GET', '/v1/templates/storage-usage', undefined, root)).toMatchObject({ used_gb: 0 });
  expect((await importing()).status).toBe('completed');
});

test('what failed imports have sent counts until a sweep, also when their templates are deleted', async () => {
  const root = await api.addAccount();
  await pushImage(origin, `source/${name}`, { layers: [anyLayer(4_000_000)] });
  front.fault = { stallsAfter: 1_000_000 };
  const begun = await requestImport({}, root);
  const leftovers = async () => {
    const [row] = await plane.orm.em
      .fork()
      .execute<{ bytes: string }[]>('select sum(bytes) as bytes from import_leftovers where account_id = ?', [
        root.accountId,
      ]);
    return Number(row!.bytes);
  };
  await until(async () => (await leftovers()) > 900_000, 60_000);
  await send('DELETE', `/v1/templates/${begun.template_id}/import`, undefined, root);
  await closed(begun.job_id);
  await send('DELETE', `/v1/templates/${begun.template_id}`, undefined, root);
  expect(await leftovers()).toBeGreaterThan(900_000);
  await plane.orm.em
    .fork()
    .execute('update import_leftovers set bytes = 11::bigint << 30 where account_id = ?', [root.accountId]);
  front.fault = {};
  const made = await requestImport({}, root);
  expect(made.job_id).toBeUndefined();
  const started = () => api.send(root, 'POST', `/v1/templates/${made.template_id}/import`);
  const refused = await started();
  expect([refused.status, refused.body.code]).toEqual([400, 'template_storage_limit_reached']);
  expect(refused.body.error).toContain('Imports that failed or were cancelled have sent more than the 10 GB');
  await plane.orm.em
    .fork()
    .execute("update import_leftovers set sent_at = now() - interval '5 hours' where account_id = ?", [root.accountId]);
  await endSweep(plane.orm.em, true);
  expect((await started()).status).toBe(202);
});

test.each(['private', 'account_shared'] as const)(
  'an account whose %s images fill its plan imports nothing more',
  async (visibility) => {
    const other = await api.addAccount();
    const owner = { accountId: other.accountId, ownerUserId: other.userId };
    const imageBlobs = [{ digest: 'sha256:full', size: 11 * 1024 ** 3 }];
    await api.addTemplate({ ...owner, name: `${name}-full`, visibility, imageBlobs });
    const usage = await send('GET', '/v1/templates/storage-usage', undefined, other);
    expect(usage).toMatchObject({ used_gb: 11, limit_gb: 10, percentage: 110, user_used_gb: 11, user_limit_gb: null });
    const made = await requestImport({}, other);
    expect([made.job_id, made.message]).toEqual([undefined, expect.stringContaining('could not be started')]);
    const refused = await send('POST', `/v1/templates/${made.template_id}/import`, undefined, other);
    expect(refused).toEqual([400, 'template_storage_limit_reached']);
  },
);

test('an external template whose image is not there is refused; one that is there names the import', async () => {
  await pushImage(origin, `source/${name}`);
  front.password = { username: 'ada', password: secret };
  const create = (image: string, password: string, more: Json = {}) =>
    send('POST', '/v1/templates', {
      ...{ name, template_source: 'custom', custom_image_source: 'external' },
      ...{ external_image_url: `${front.address}/source/${image}`, external_registry_username: 'ada' },
      ...{ external_registry_password: password, ...more },
    });
  const missing = [404, 'image_not_found'];
  expect(await create(`${name}-none`, secret)).toEqual(missing);
  expect(await create(`${name}:none`, secret)).toEqual(missing);
  expect(await create(name, 'guess')).toEqual(missing);
  // The platform's own registry is no external one.
  const own = `${origin.slice('http://'.length)}/source/${name}`;
  expect(await create(name, secret, { external_image_url: own })).toEqual([400, 'validation_failed']);
  const made = await create(name, secret);
  expect(made).toMatchObject({ status: 'pending', start_image_command: true });
  const url = `/v1/templates/${made.template_id}`;
  const changed = { external_image_url: `${front.address}/source/${name}:none`, external_registry_password: secret };
  expect(await send('PUT', url, changed)).toEqual(missing);
  const { status, body } = await api.send(user, 'POST', '/v1/sandboxes', { template: name });
  expect([status, body.code]).toEqual([400, 'template_not_usable']);
  expect(body.error).toContain(`POST ${url}/import`);
  // It may be away for a moment, which the retries of the import bear.
  const away = { name: `${name}-b`, external_image_url: '127.0.0.1:9/a/b', external_registry_username: '' };
  expect(await create(name, '', away)).toMatchObject({ status: 'pending' });
});

test('while the registry is away, a template is made and says so; a later import is 503', async () => {
  const env = {
    PLATFORM_REGISTRY: '127.0.0.1:9',
    PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
    PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
  };
  const { orm, account, commands } = plane;
  const away = await startApi({ on: { orm, account, commands }, env });
  try {
    const body = { name, external_image_url: `${front.address}/source/${name}` };
    const made = await away.send(user, 'POST', '/v1/templates/import', body);
    expect([made.status, made.body.data]).toEqual([
      202,
      {
        template_id: expect.any(String),
        name,
        visibility: 'private',
        message: expect.stringContaining('could not be started'),
      },
    ]);
    const started = await away.send(user, 'POST', `/v1/templates/${made.body.data.template_id}/import`);
    expect([started.status, started.body.code]).toEqual([503, 'registry_unavailable']);
  } finally {
    await away.stop();
  }
});

test('who may import for whom', async () => {
  expect(await requestImport({ visibility: 'account_shared' })).toEqual([403, 'root_required']);
  expect(await requestImport({ visibility: 'public' })).toEqual([403, 'admin_required']);
  expect(await requestImport({ external_image_url: 'not an image' })).toEqual([400, 'validation_failed']);
  expect(await requestImport({ external_image_url: '10.0.0.1/a/b' })).toEqual([400, 'validation_failed']);
  const made = await send('POST', '/v1/templates', { name });
  expect(await send('POST', `/v1/templates/${made.template_id}/import`)).toEqual([400, 'template_not_external']);
});

test('an image without references is removed from the registry, another stays', async () => {
  const { digest } = await pushImage(origin, `${user.userId}/${name}`);
  const image = `registry:${user.userId}/${name}@${digest}`;
  const templateId = await api.addTemplate({ accountId: user.accountId, ownerUserId: user.userId, image, name });
  const remove = async () => {
    const em = plane.orm.em.fork();
    requestStart(em, 'imageRemoval', image, { accountId: user.accountId, image });
    await em.flush();
    const handle = plane.client.workflow.getHandle<() => Promise<boolean>>(`${image}/removal`);
    const workflowId = `${image}/removal`;
    await until(async () => (await plane.orm.em.fork().count(OutboxEntry, { workflowId })) === 0);
    return handle.result();
  };
  expect(await remove()).toBe(false);
  expect(await hasManifest(origin, `${user.userId}/${name}`, digest)).toBe(true);
  await plane.orm.em.fork().nativeDelete(Template, { templateId });
  expect(await remove()).toBe(true);
  expect(await hasManifest(origin, `${user.userId}/${name}`, digest)).toBe(false);
  if (recording) await recordHistory(plane.client, 'image-removal', `${image}/removal`);
});
