import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { SteadyLoad, tableOf } from '../faults/steady-load.ts';
import { until } from '../support/until.ts';
import { InstalledChart, release } from './support/installed-chart.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

/**
 * The chart on a real cluster: an image of the Dockerfile, a Postgres and a Temporal outside, Helm, and sandboxes as pods.
 * It is installed with the code of the commit `UPGRADE_FROM`, else with this folder's own as an earlier version, and upgraded
 * while clients use sandboxes.
 */
/** It is there until the end of the file. */
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, template: 'base', timeout: 3600 };
const parts = ['api', 'gateway', 'worker', 'sandboxes'];
const clients = 3;
const roundsOfPart = 6;
let cluster: KubernetesCluster;
let platform: InstalledChart;
let client: PlatformClient;
let sandbox: SandboxView;
let load: SteadyLoad | undefined;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  platform = await InstalledChart.prepare(cluster);
  await platform.pushImage('new', null);
  if (process.env.UPGRADE_FROM) await platform.pushImage('old', process.env.UPGRADE_FROM);
  else await platform.pushAsVersion('new', 'old', '0.0.1');
  await platform.makeDisks(1 + clients);
  await platform.helm('old');
}, 1_200_000);

afterAll(async () => {
  await load?.stop(10);
  await platform?.close();
  await cluster?.stop();
}, 240_000);

/** @returns whether its budget allows it */
async function evict({ metadata }: V1Pod): Promise<boolean> {
  const { name, namespace } = metadata as { name: string; namespace: string };
  try {
    await cluster.core.createNamespacedPodEviction({ name, namespace, body: { metadata: { name, namespace } } });
    return true;
  } catch (error) {
    if ((error as { code?: number }).code !== 429) throw error;
    return false;
  }
}

const tagsOf = async (part: string) =>
  new Set((await platform.podsOf(part)).map(({ spec }) => spec!.containers[0]!.image!.split(':').at(-1)));

async function contentOfFile(): Promise<string> {
  const agent = await platform.agent(sandbox);
  const { stdout } = await agent.run('/bin/cat', ['/root/file']);
  agent.close();
  return stdout;
}

/** @returns seconds of the upgrade. @throws with what the pods say */
async function upgradeUnder(clientsLoad: SteadyLoad): Promise<number> {
  try {
    await clientsLoad.moreRounds(roundsOfPart);
    await platform.follow('sandboxes');
    clientsLoad.part = 'helm upgrade';
    const begun = performance.now();
    await platform.helm('new');
    const seconds = (performance.now() - begun) / 1000;
    for (const part of parts) await until(async () => [...(await tagsOf(part))].every((tag) => tag === 'new'));
    clientsLoad.part = 'after';
    await clientsLoad.moreRounds(roundsOfPart);
    await clientsLoad.stop();
    return seconds;
  } catch (cause) {
    throw new Error(`${(cause as Error).message}\n${await platform.troubles()}`, { cause });
  }
}

function printLoad(clientsLoad: SteadyLoad): void {
  const refusals = [...clientsLoad.refusals].map(([text, count]) => `${count} × ${text}\n`);
  const wrong = clientsLoad.wrong.map((text) => `WRONG ${text}\n`);
  process.stdout.write(`${[...refusals, ...wrong].join('')}${tableOf(clientsLoad)}\n`);
}

test('each part is ready; no log of the migrations has an API key, which the operator makes in a pod of the API', async () => {
  expect(await platform.readyReplicas()).toEqual({
    [`${release}-api`]: 2,
    [`${release}-gateway`]: 2,
    [`${release}-sandboxes`]: 1,
    [`${release}-worker`]: 2,
  });
  const log = await platform.kubectl('logs', `job/${release}-migrations`, '--all-containers');
  expect(log).toContain('"created":true');
  expect(log).not.toContain('spk_');
  client = await platform.client(await platform.makeApiKey());
  const { status, body } = await client.request('GET', '/v1/sandboxes');
  expect([status, body.data]).toEqual([200, expect.objectContaining({ sandboxes: [] })]);
});

test('the image has what makes the agent image of it', async () => {
  const words = ['exec', `deployment/${release}-api`, '--', 'sh', '-c'];
  const script = 'node runtime/kubernetes/write-agent-image.ts /tmp/agent && cd /tmp/agent && ls -A . .platform/bin';
  const written = await platform.kubectl(...words, script);
  expect(written).toMatch(/^\.:\n\.platform\n\n/);
  expect(written).toMatch(/^node$/m);
}, 60_000);

test('a sandbox is created through the Service of the API, and a command in it runs through that of the gateway', async () => {
  // The host worker offers its cluster some moments after its start.
  await until(
    async () => {
      const { status, body } = await client.request<SandboxView>('POST', '/v1/sandboxes', small);
      if (status === 201) sandbox = body.data;
      else expect([status, body.code]).toEqual([503, expect.any(String)]);
      return status === 201;
    },
    90_000,
    1000,
  );
  sandbox = await client.sandbox(sandbox.sandbox_id);
  expect(sandbox.status).toBe('running');
  expect((await platform.sandboxObjects()).disks).toEqual([sandbox.sandbox_id]);
  const agent = await platform.agent(sandbox);
  expect(await agent.run('/bin/sh', ['-c', 'echo kept > /root/file; echo from $HOSTNAME'])).toMatchObject({
    exitCode: 0,
    stdout: `from ${sandbox.sandbox_id}\n`,
  });
  agent.close();
  const exec = { command: 'cat /root/file', wait: true };
  const { body } = await client.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/exec`, exec);
  expect(body).toMatchObject({ exit_code: 0, stdout: 'kept\n' });
}, 180_000);

test('`helm upgrade` under load: the migrations run again, pods are replaced, no acknowledged work is lost', async () => {
  load = new SteadyLoad(client, clients, 'before');
  const seconds = await upgradeUnder(load).finally(() => printLoad(load!));
  process.stdout.write(`helm upgrade: ${seconds.toFixed(1)} s, ${clients} sandboxes, ${load.rounds} rounds\n`);
  expect(load.wrong).toEqual([]);
  expect(load.sandboxes).toHaveLength(clients);
  for (const { sandboxId, lines } of load.sandboxes) {
    const exec = { command: 'cat /root/lines', wait: true };
    const { body } = await client.request('POST', `/v1/sandboxes/${sandboxId}/exec`, exec);
    const written = (body as unknown as { stdout: string }).stdout.trim().split('\n').map(Number);
    expect(written).toEqual(Array.from({ length: lines }, (_, line) => line));
  }
  const log = await platform.kubectl('logs', `job/${release}-migrations`, '--all-containers');
  expect(log).toContain('"created":false');
  expect(await contentOfFile()).toBe('kept\n');
}, 900_000);

test('evictions stop where the budget says, and go on once another pod is ready', async () => {
  for (const part of ['api', 'gateway', 'worker']) {
    const [first, second] = await platform.podsOf(part);
    await until(() => evict(first!));
    expect(await evict(second!)).toBe(false);
    await until(() => evict(second!), 120_000, 500);
    const others = (await platform.podsOf(part)).filter(({ metadata }) => metadata!.uid !== second!.metadata!.uid);
    const isReady = ({ status }: V1Pod) => status?.containerStatuses?.every(({ ready }) => ready) === true;
    expect(others.some(isReady)).toBe(true);
  }
}, 300_000);

test('`helm uninstall` leaves secrets, the log of the migrations, and the sandboxes, which go on', async () => {
  const before = await platform.sandboxObjects();
  expect(before.pods).toContain(sandbox.sandbox_id);
  await platform.uninstall();
  const kinds = 'deployments,daemonsets,services,configmaps,poddisruptionbudgets,networkpolicies,jobs,secrets';
  const left = await platform.kubectl('get', kinds, '--output=name');
  expect(left.trim().split('\n').sort()).toEqual([
    'configmap/kube-root-ca.crt',
    `job.batch/${release}-migrations`,
    ...['gateway-tls', 'platform', 'platform-owner'].map((name) => `secret/${name}`),
  ]);
  expect(await platform.sandboxObjects()).toEqual(before);
}, 120_000);
