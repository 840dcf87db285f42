import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { newId } from '../../../db/core/new-id.ts';
import { ImportJob } from '../../../db/templates/import-job.entity.ts';
import {
  beginRemoval,
  endRemoval,
  findUnusedImages,
  holdImage,
  rememberImages,
} from '../../../db/templates/registry-images.ts';
import { beginSweep, endSweep } from '../../../db/templates/registry-sweeps.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { ImportJobId, TemplateId } from '../../../domain/ids.ts';
import { type EmbeddedRegistry, startRegistry, sweepSocketIn } from '../../../ops/local-stack/embedded/registry.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import type { CollectionReport } from '../../../workflows/templates/image-collection.ts';
import type { Json } from '../../api/contract-client.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { freePort } from '../../support/free-port.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { anyLayer, computeDigest, hasManifest, pushImage } from '../../support/pushed-image.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { RegistryFront } from '../../support/registry-front.ts';
import { registryAddress } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** The embedded registry of a test of its own: a sweep closes it for a moment. */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-test-registry-'));
let registry: EmbeddedRegistry;
let origin: string;
let plane: ControlPlane;
let api: TestApi;
let name: string;

beforeAll(async () => {
  registry = await startRegistry({ dir: folder, home: { logDir: folder }, port: await freePort() });
  origin = `http://${registry.address}`;
  const env = {
    PLATFORM_REGISTRY: registry.address,
    PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
    PLATFORM_REGISTRY_SWEEP_SOCKET: sweepSocketIn(folder)!,
    PLATFORM_UNUSED_IMAGES_KEPT_HOURS: '0',
    PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
  };
  plane = await startControlPlane({ driver: new MemoryDriver(), env });
  const { orm, account, commands } = plane;
  api = await startApi({ on: { orm, account, commands }, env });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await registry?.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  name = `t${randomBytes(5).toString('hex')}`;
});

async function collect(historyName?: string): Promise<CollectionReport> {
  const { workflowId, ...options } = startOptions('imageCollection', '', undefined);
  const handle = await plane.client.workflow.start('imageCollection', { workflowId, ...options });
  const report = await handle.result();
  if (historyName && process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, historyName, workflowId);
  return report as CollectionReport;
}

/** Whether the activity of an import has been handed to a worker. */
async function isCopying(jobId: ImportJobId): Promise<boolean> {
  try {
    const { raw } = await plane.client.workflow.getHandle(jobId).describe();
    return (raw.pendingActivities ?? []).some(({ lastStartedTime }) => lastStartedTime);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

const own = () => `${api.root.userId}/${name}`;
const owner = () => ({ accountId: api.root.accountId, ownerUserId: api.root.userId });
const blobFile = (digest: string) =>
  path.join(folder, 'blobs/docker/registry/v2/blobs/sha256', digest.slice(7, 9), digest.slice(7), 'data');
const forget = (templateId: TemplateId) => plane.orm.em.fork().nativeDelete(Template, { templateId });

test('images without references are removed and their space is freed; images of templates, and of others, stay', async () => {
  const [layer, shared] = [anyLayer(300_000), anyLayer(100_000)];
  const used = await pushImage(origin, own(), { layers: [shared], tag: 'used' });
  const stray = await pushImage(origin, own(), { layers: [shared, layer], tag: 'stray' });
  const untagged = await pushImage(origin, own(), { tag: 'moves' });
  const templateId = await api.addTemplate({ ...owner(), name, image: `registry:${own()}@${used.digest}` });
  const former = await api.addTemplate({
    ...owner(),
    name: `${name}-b`,
    image: `registry:${own()}@${untagged.digest}`,
  });
  await pushImage(origin, own(), { layers: [shared, anyLayer()], tag: 'moves' });
  await forget(former);
  const foreign = await pushImage(origin, `usr-${name}/image`);
  expect(await collect('image-collection')).toMatchObject({ removed: 3, sweep: 'swept' });
  expect(await hasManifest(origin, own(), used.digest)).toBe(true);
  for (const { digest } of [stray, untagged]) expect(await hasManifest(origin, own(), digest)).toBe(false);
  expect(await hasManifest(origin, `usr-${name}/image`, foreign.digest)).toBe(true);
  const [usedLayer, strayLayer] = stray.layers.map(({ digest }) => fs.existsSync(blobFile(digest)));
  expect([usedLayer, strayLayer]).toEqual([true, false]);
  // It accepts images again.
  await pushImage(origin, own(), { layers: [layer], tag: 'again' });
  await forget(templateId);
});

test('blobs of a failed import are removed by the next round', async () => {
  const external = await registryAddress();
  const layer = anyLayer(300_000);
  const layers = [layer];
  await pushImage(`http://${external}`, `source/${name}`, { layers, claimed: (size) => size + 1000 });
  const body = { name, external_image_url: `${external}/source/${name}` };
  const { job_id: jobId } = (await api.send(api.root, 'POST', '/v1/templates/import', body)).body.data as Json;
  const readJob = async () => (await api.send(api.root, 'GET', `/v1/import-jobs/${jobId}`)).body.data as Json;
  await until(async () => (await readJob()).status === 'failed', 60_000);
  await plane.client.workflow
    .getHandle(jobId)
    .result()
    .catch(() => {});
  expect(fs.existsSync(blobFile(computeDigest(layer.bytes)))).toBe(true);
  expect((await collect()).sweep).toBe('swept');
  expect(fs.existsSync(blobFile(computeDigest(layer.bytes)))).toBe(false);
});

test('an image stays for as long as the setting says after the last use', async () => {
  const { digest } = await pushImage(origin, own());
  const em = plane.orm.em.fork();
  await rememberImages(em, own(), [digest]);
  const image = `registry:${own()}@${digest}`;
  expect(await findUnusedImages(em, 24, 1000)).not.toContain(image);
  await em.execute("update registry_images set unused_since = unused_since - interval '25 hours' where path = ?", [
    own(),
  ]);
  expect(await findUnusedImages(em, 24, 1000)).toContain(image);
  const templateId = await api.addTemplate({ ...owner(), name, image });
  expect(await findUnusedImages(em, 24, 1000)).not.toContain(image);
  await forget(templateId);
  expect(await findUnusedImages(em, 24, 1000)).not.toContain(image);
});

test('an image that a request is about to name is not removed, and one that is being removed cannot be named', async () => {
  const place = { path: own(), digest: `sha256:${randomBytes(32).toString('hex')}` };
  const image = `registry:${place.path}@${place.digest}`;
  const { em } = plane.orm;
  expect(await holdImage(em, place)).toBe(true);
  expect(await beginRemoval(em, image)).toBe(false);
  await em
    .fork()
    .execute("update registry_images set held_until = now() - interval '1 second' where path = ?", [own()]);
  expect(await beginRemoval(em, image)).toBe(true);
  expect([await beginRemoval(em, image), await holdImage(em, place)]).toEqual([false, false]);
  await endRemoval(em, image, false);
  expect(await holdImage(em, place)).toBe(true);
});

test('a sweep waits for imports and loses nothing of theirs; an import that begins meanwhile waits for the sweep', async () => {
  const external = await registryAddress();
  const front = await RegistryFront.start(external);
  const layers = [anyLayer(300_000), anyLayer(1_000_000)];
  const source = await pushImage(`http://${external}`, `source/${name}`, { layers });
  const stray = await pushImage(origin, `${own()}-stray`);
  front.fault = { stallsAfter: 500_000 };
  const body = { name, external_image_url: `${front.address}/source/${name}` };
  const begin = async () => (await api.send(api.root, 'POST', '/v1/templates/import', body)).body.data as Json;
  const readJob = async (jobId: ImportJobId) =>
    (await api.send(api.root, 'GET', `/v1/import-jobs/${jobId}`)).body.data as Json;
  try {
    const { job_id: jobId, template_id: templateId } = await begin();
    await until(() => fs.existsSync(blobFile(source.layers[0]!.digest)));
    expect((await collect()).sweep).toBe('busy');
    expect(await hasManifest(origin, `${own()}-stray`, stray.digest)).toBe(false);
    front.fault = {};
    await until(async () => (await readJob(jobId)).status === 'completed', 60_000);
    expect(await hasManifest(origin, own(), source.digest)).toBe(true);
    await api.send(api.root, 'DELETE', `/v1/templates/${templateId}`);

    expect(await beginSweep(plane.orm.em)).toBe('begun');
    const second = await begin();
    await until(() => isCopying(second.job_id));
    // Long enough for an attempt that would not wait. This one copies nothing.
    await delay(500);
    expect(await readJob(second.job_id)).toMatchObject({ status: 'pending', progress_percentage: 0 });
    await endSweep(plane.orm.em, true);
    await until(async () => (await readJob(second.job_id)).status === 'completed', 60_000);
  } finally {
    await front.stop();
  }
});

test('if imports never end, new attempts wait for a sweep that has been due for a day', async () => {
  const em = plane.orm.em.fork();
  const templateId = await api.addTemplate({ ...owner(), name });
  const jobId = newId('importJob');
  em.create(ImportJob, {
    ...{ ...owner(), jobId, templateId, status: 'running', maxRetries: 3 },
    ...{ externalImageUrl: 'a/b', registryImageUrl: 'c/d', registryPath: own() },
  });
  await em.flush();
  await em.execute('update registry_sweeps set removed_since = 1, wanted_since = null');
  expect(await beginSweep(em)).toBe('busy');
  await em.execute("update registry_sweeps set wanted_since = now() - interval '25 hours'");
  expect(await beginSweep(em)).toBe('closing');
  // No attempt of it writes any longer.
  await em.execute("update import_jobs set updated_at = now() - interval '2 minutes' where job_id = ?", [jobId]);
  expect(await beginSweep(em)).toBe('begun');
  await endSweep(em, true);
  await forget(templateId);
  expect(await beginSweep(em)).toBe('nothing_to_sweep');
});
