import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Notification } from '../../../db/accounts/notification.entity.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { DriverError, type PackedLayer } from '../../../runtime/driver.ts';
import type { Json } from '../../api/contract-client.ts';
import { type Caller, startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { hasManifest } from '../../support/pushed-image.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { registryAddress } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** With RECORD_HISTORIES=1 the histories are stored for the replay tests. */
const recording = process.env.RECORD_HISTORIES === '1';
const driver = new MemoryDriver();
let folder: string;
let origin: string;
let plane: ControlPlane;
let api: TestApi;
let user: Caller;
let name: string;
let sandboxId: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'template-build-'));
  driver.layers.set('tree', createLayer(300_000));
  const address = await registryAddress();
  origin = `http://${address}`;
  const env = { PLATFORM_REGISTRY: address, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' };
  plane = await startControlPlane({ driver, env, planName: 'pro' });
  const { orm, account, commands } = plane;
  api = await startApi({ on: { orm, account, commands }, env });
}, 120_000);
afterAll(async () => {
  await api.stop();
  await plane.stop();
  await rm(folder, { recursive: true });
});
beforeEach(async () => {
  user = await api.addUser(api.root);
  name = `b${randomBytes(5).toString('hex')}`;
  driver.layers.set('changes', createLayer(200_000));
  sandboxId = (await send('POST', '/v1/sandboxes', { cpu_count: 3, memory_mb: 640, storage_gb: 1 })).sandbox_id;
});

/** Returns the error of a refused request, or the data of an accepted one. */
async function send(method: string, url: string, body?: Json, caller = user): Promise<Json> {
  const reply = await api.send(caller, method, url, body);
  return reply.status < 300 ? reply.body.data : [reply.status, reply.body.code];
}

/** The registry does not read its content. */
function createLayer(size: number): PackedLayer {
  const bytes = randomBytes(size);
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  const file = path.join(folder, digest.replace(':', '-'));
  writeFileSync(file, bytes);
  return { file, digest, size, diffId: digest, mediaType: 'application/vnd.oci.image.layer.v1.tar+zstd' };
}

const createTemplate = (body: Json = {}, id = sandboxId) =>
  send('POST', `/v1/sandboxes/${id}/create-template`, { name, ...body });

async function settled(templateId: string): Promise<Json> {
  let template: Json;
  await until(async () => {
    template = await send('GET', `/v1/templates/${templateId}`);
    return !['building', 'pushing'].includes(template.status);
  }, 60_000);
  return template;
}

async function closed(templateId: string, historyName?: string): Promise<string> {
  const handle = plane.client.workflow.getHandle(`${templateId}/build`);
  await until(async () => (await handle.describe()).status.name !== 'RUNNING', 60_000);
  if (recording && historyName) await recordHistory(plane.client, historyName, `${templateId}/build`);
  return (await handle.describe()).status.name;
}

test('a running sandbox becomes a template that sandboxes are made from', async () => {
  const ports = JSON.stringify([{ port: 8080, name: 'web' }]);
  const begun = await createTemplate({ description: 'mine', ports, custom_command: 'serve' });
  expect(begun).toMatchObject({
    ...{ name, description: 'mine', visibility: 'private', status: 'building', custom_command: 'serve' },
    ...{ default_cpu_count: 3, default_memory_mb: 640, ports: [{ port: 8080, name: 'web', protocol: 'TCP' }] },
    ...{ registry_project: user.userId, registry_repository: name, registry_tag: 'latest', ready_command: null },
  });
  const template = await settled(begun.template_id);
  expect(template).toMatchObject({
    ...{ status: 'available', parent_template_id: begun.base_template_id, root_template_id: begun.base_template_id },
    ...{ build_error_message: null, image_size_bytes: expect.any(Number), push_completed_at: expect.any(String) },
  });
  expect(template.image_size_bytes).toBeGreaterThan(500_000);
  // The size was read from the registry when the image was there.
  const syncedMs = Date.parse(template.last_storage_sync_at);
  expect(syncedMs).toBeGreaterThanOrEqual(Date.parse(template.push_started_at));
  expect(syncedMs).toBeGreaterThanOrEqual(Date.parse(template.created_at));
  expect(await closed(begun.template_id, 'template-build-completed')).toBe('COMPLETED');
  expect(driver.calls).toContain(`discard ${begun.template_id}`);
  expect(await hasManifest(origin, `${user.userId}/${name}`, 'latest')).toBe(true);
  const em = plane.orm.em.fork();
  expect(await em.find(Event, { objectId: begun.template_id })).toMatchObject([{ type: 'template.uploaded' }]);
  expect(await em.find(Notification, { relatedEntityId: begun.template_id })).toMatchObject([
    { type: 'template_build_completed', userId: user.userId },
  ]);
  const made = await send('POST', '/v1/sandboxes', { template: name, storage_gb: 1 });
  expect(made).toMatchObject({ template_id: begun.template_id, cpu_count: 3, memory_mb: 640 });
  driver.layers.set('changes', createLayer(100_000));
  const grandchild = await createTemplate({ name: `${name}-next` }, made.sandbox_id);
  expect((await settled(grandchild.template_id)).root_template_id).toBe(begun.base_template_id);
  const { imageBlobs, image } = await em.findOneOrFail(Template, { templateId: grandchild.template_id });
  expect(
    imageBlobs!
      .map(({ size }) => size)
      .sort((a, b) => b - a)
      .slice(0, 3),
  ).toEqual([300_000, 200_000, 100_000]);
  expect(image).toContain(`registry:${user.userId}/${name}-next@sha256:`);
});

test('a failed build gives the reason, changes no sandbox, leaves no image, and its template can be deleted', async () => {
  driver.failNext.set('copy', new DriverError('changes_not_packable', 'The sandbox has what no image can hold: a'));
  const begun = await createTemplate();
  const template = await settled(begun.template_id);
  expect(template).toMatchObject({ status: 'failed', registry_image_url: null, last_storage_sync_at: null });
  expect(template.build_error_message).toBe('The sandbox has what no image can hold: a');
  expect(await closed(begun.template_id, 'template-build-failed')).toBe('FAILED');
  expect(await hasManifest(origin, `${user.userId}/${name}`, 'latest')).toBe(false);
  const [notification] = await plane.orm.em.fork().find(Notification, { relatedEntityId: begun.template_id });
  expect(notification).toMatchObject({
    type: 'template_build_failed',
    message: expect.stringContaining('image can hold'),
  });
  expect(await send('GET', `/v1/sandboxes/${sandboxId}`)).toMatchObject({ status: 'running' });
  expect(await send('POST', '/v1/sandboxes', { template: name })).toEqual([400, 'template_not_usable']);
  expect((await api.send(user, 'DELETE', `/v1/templates/${begun.template_id}`)).status).toBe(200);
});

test('while its image is built, a template is neither deleted nor changed in what the build sets', async () => {
  const release = driver.holdCopies();
  const begun = await createTemplate();
  const url = `/v1/templates/${begun.template_id}`;
  expect(await send('DELETE', url)).toEqual([409, 'build_in_progress']);
  expect(await send('PUT', `${url}/status`, { status: 'available' })).toEqual([409, 'build_in_progress']);
  expect(await send('POST', `${url}/share`, {})).toEqual([409, 'build_in_progress']);
  release();
  expect((await settled(begun.template_id)).status).toBe('available');
});

test('an image beyond the storage of the plan is removed again', async () => {
  const small = await api.addUser(api.root);
  await send('POST', '/v1/user-management/quota-allocations', toQuotaBody(small, 0.0001), api.root);
  const sandbox = await send('POST', '/v1/sandboxes', { storage_gb: 1 }, small);
  const begun = await send('POST', `/v1/sandboxes/${sandbox.sandbox_id}/create-template`, { name }, small);
  await until(
    async () => (await send('GET', `/v1/templates/${begun.template_id}`, undefined, small)).status === 'failed',
  );
  const template = await send('GET', `/v1/templates/${begun.template_id}`, undefined, small);
  expect(template.build_error_message).toContain('beyond the storage');
  expect(await closed(begun.template_id)).toBe('COMPLETED');
  expect(await hasManifest(origin, `${small.userId}/${name}`, 'latest')).toBe(false);
});

const toQuotaBody = (of: Caller, gb: number) => ({ user_id: of.userId, template_storage_gb: gb });

test('impossible requests are refused with a code, and a repeated request makes no second template', async () => {
  expect(await createTemplate({ name: 'no' })).toEqual([400, 'invalid_name']);
  expect(await createTemplate({ cpu_count: 1000 })).toEqual([400, 'plan_limit_exceeded']);
  expect(await createTemplate({ visibility: 'public' })).toEqual([403, 'admin_required']);
  expect(await createTemplate({ ports: '{}' })).toEqual([400, 'validation_failed']);
  expect(await createTemplate({ ready_command: '{"type": "never"}' })).toEqual([400, 'validation_failed']);
  const stranger = await api.addAccount();
  expect(await send('POST', `/v1/sandboxes/${sandboxId}/create-template`, { name }, stranger)).toEqual([
    404,
    'not_found',
  ]);
  const headers = { 'idempotency-key': name };
  const url = `/v1/sandboxes/${sandboxId}/create-template`;
  const [first, second] = [
    await api.send(user, 'POST', url, { name }, { headers }),
    await api.send(user, 'POST', url, { name }, { headers }),
  ];
  expect([first.status, second.body.data.template_id]).toEqual([200, first.body.data.template_id]);
  expect(await createTemplate()).toEqual([409, 'template_name_taken']);
  await settled(first.body.data.template_id);
  await send('POST', `/v1/sandboxes/${sandboxId}/pause`);
  expect(await createTemplate({ name: `${name}-p` })).toEqual([409, 'sandbox_not_running']);
  await send('POST', `/v1/sandboxes/${sandboxId}/terminate`);
  expect(await createTemplate({ name: `${name}-p` })).toEqual([409, 'sandbox_not_running']);
});
