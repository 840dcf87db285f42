import { afterAll, beforeAll, expect, test } from '@jest/globals';
import proto from '@temporalio/proto';
import { anyLayer, hasManifest, pushImage } from '../support/pushed-image.ts';
import { RegistryFront } from '../support/registry-front.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { FaultyPlatform } from './faulty-platform.ts';

interface ImportJob {
  job_id: string;
  template_id: string;
  status: string;
  progress_percentage: number;
  retry_count: number;
  skopeo_logs: string;
}

let origin: string;
let platform: FaultyPlatform;
let front: RegistryFront;
let userId: string;

beforeAll(async () => {
  const address = await registryAddress();
  origin = `http://${address}`;
  front = await RegistryFront.start(address);
  platform = await FaultyPlatform.start({ PLATFORM_REGISTRY: address, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' });
  const { data } = (await platform.api.request<{ user_id: string }>('GET', '/v1/users/me')).body;
  userId = data.user_id;
}, 240_000);
afterAll(async () => {
  await platform?.stop();
  await platform?.removeData();
  await front?.stop();
}, 60_000);

const begin = async (name: string) => {
  const body = { name, external_image_url: `${front.address}/source/${userId}` };
  return (await platform.api.request<ImportJob>('POST', '/v1/templates/import', body)).body.data;
};
const readJob = async (jobId: string) =>
  (await platform.api.request<ImportJob>('GET', `/v1/import-jobs/${jobId}`)).body.data;
const hasBlob = async (path: string, digest: string) =>
  (await fetch(`${origin}/v2/${path}/blobs/${digest}`, { method: 'HEAD' })).status === 200;

/** Prints the history, one event per line, so that a person can see where the worker was killed. */
async function printHistory(jobId: string): Promise<void> {
  const { events } = await platform.temporal.workflow.getHandle(jobId).fetchHistory();
  const lines = events!.map((event) => {
    const at = new Date(Number(event.eventTime!.seconds) * 1000).toISOString().slice(11, 19);
    const name = proto.temporal.api.enums.v1.EventType[event.eventType!]!.replace('EVENT_TYPE_', '').toLowerCase();
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskStartedEventAttributes: started } = event;
    const attempt = started ? `attempt ${started.attempt} ${started.lastFailure?.message ?? ''}` : '';
    return [at, name, scheduled?.activityType?.name ?? '', attempt].join('  ').trimEnd();
  });
  process.stdout.write(`the history of an import whose worker was killed\n${lines.join('\n')}\n`);
}

test('an import whose worker is killed continues without the layers that had arrived', async () => {
  const layers = [anyLayer(2_000_000), anyLayer(8_000_000), anyLayer(16_000_000)];
  const { digest, sizeBytes, layers: pushed } = await pushImage(origin, `source/${userId}`, { layers });
  front.fault = { stallsAfter: 5_000_000 };
  const { job_id: jobId } = await begin('killed-import');
  const path = `${userId}/killed-import`;
  await until(() => hasBlob(path, pushed[0]!.digest), 120_000);
  await until(async () => (await readJob(jobId)).progress_percentage > 20, 120_000);
  await platform.kill('worker');
  const read = front.bytesSent;
  expect(await hasManifest(origin, path, 'latest')).toBe(false);
  front.fault = {};
  await platform.up('worker');
  await until(async () => (await readJob(jobId)).status === 'completed', 240_000);
  const job = await readJob(jobId);
  process.stdout.write(
    `an image of ${sizeBytes} bytes; killed -9 after ${read} bytes; read in all ${front.bytesSent}, ` +
      `so ${front.bytesSent - sizeBytes} bytes twice\n${job.skopeo_logs}\n`,
  );
  await printHistory(jobId);
  expect(job).toMatchObject({ progress_percentage: 100, retry_count: 1 });
  expect(await hasManifest(origin, path, digest)).toBe(true);
  const gets = front.asked.filter((line) => line.startsWith('GET ') && line.includes(pushed[0]!.digest));
  expect(gets).toHaveLength(1);
  expect(front.bytesSent - read).toBeLessThan(sizeBytes - 1_500_000);
}, 600_000);

test('a cancel while no worker runs leaves nothing, and the next import of the template succeeds', async () => {
  front.fault = { stallsAfter: 1_000_000 };
  const { job_id: jobId, template_id: templateId } = await begin('cancelled-import');
  await until(async () => (await readJob(jobId)).progress_percentage > 0, 120_000);
  await platform.kill('worker');
  await platform.api.request('DELETE', `/v1/import-jobs/${jobId}`);
  expect((await readJob(jobId)).status).toBe('cancelled');
  await platform.up('worker');
  const handle = platform.temporal.workflow.getHandle(jobId);
  await until(async () => (await handle.describe()).status.name === 'COMPLETED', 240_000);
  expect(await hasManifest(origin, `${userId}/cancelled-import`, 'latest')).toBe(false);
  front.fault = {};
  const again = await platform.api.request<ImportJob>('POST', `/v1/templates/${templateId}/import`);
  await until(async () => (await readJob(again.body.data.job_id)).status === 'completed', 240_000);
}, 600_000);
