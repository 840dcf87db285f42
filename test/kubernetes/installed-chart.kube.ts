import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { formatTable, SteadyLoad } from '../faults/steady-load.ts';
import { until } from '../support/until.ts';
import { InstalledChart, release } from './support/installed-chart.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

/**
 * Tests the chart on a real cluster, with an image of the Dockerfile, Postgres and Temporal outside of the cluster, and
 * sandboxes as pods. Helm installs the code of the commit `UPGRADE_FROM`, or this folder's code under an earlier
 * version number. Then it upgrades the release while clients use sandboxes.
 */
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, template: 'base', timeout: 3600 };
const parts = ['api', 'gateway', 'worker', 'sandboxes'];
const clients = 3;
const roundsOfPart = 6;
let cluster: KubernetesCluster;
let platform: InstalledChart;
let client: PlatformClient;
/** This sandbox exists until the last test. */
let sandbox: SandboxView;
let load: SteadyLoad | undefined;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  platform = await InstalledChart.prepare(cluster);
  await platform.pushImage('new', null);
  const { UPGRADE_FROM: from } = process.env;
  if (from) await platform.pushImage('old', from);
  else await platform.pushAsVersion('new', 'old', '0.0.1');
  await platform.makeDisks(1 + clients);
  await platform.helm('old', {}, from && (await platform.readChart(from)));
}, 1_200_000);

afterAll(async () => {
  await load?.stop(10);
  await platform?.close();
  await cluster?.stop();
}, 240_000);

/** Evicts a pod. @returns whether the disruption budget allows it */
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

const readTags = async (part: string) =>
  new Set((await platform.listPods(part)).map(({ spec }) => spec!.containers[0]!.image!.split(':').at(-1)));

async function contentOfFile(): Promise<string> {
  const agent = await platform.agent(sandbox);
  const { stdout } = await agent.run('/bin/cat', ['/root/file']);
  agent.close();
  return stdout;
}

/** @returns the seconds that the upgrade took. @throws with the logs of the pods */
async function upgradeUnder(clientsLoad: SteadyLoad): Promise<number> {
  try {
    await clientsLoad.moreRounds(roundsOfPart);
    await platform.follow('sandboxes');
    clientsLoad.part = 'helm upgrade';
    const begun = performance.now();
    await platform.helm('new');
    const seconds = (performance.now() - begun) / 1000;
    for (const part of parts) await until(async () => [...(await readTags(part))].every((tag) => tag === 'new'));
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
  process.stdout.write(`${[...refusals, ...wrong].join('')}${formatTable(clientsLoad)}\n`);
}

test('all parts are ready; the operator makes an API key in a pod of the API, and no log of the migrations has one', async () => {
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

test('a container of the image can write the files of the agent image', async () => {
  const words = ['exec', `deployment/${release}-api`, '--', 'sh', '-c'];
  const script = 'node runtime/kubernetes/write-agent-image.ts /tmp/agent && cd /tmp/agent && ls -A . .platform/bin';
  const written = await platform.kubectl(...words, script);
  expect(written).toMatch(/^\.:\n\.platform\n\n/);
  expect(written).toMatch(/^node$/m);
}, 60_000);

test('clients create a sandbox through the Service of the API and run a command through that of the gateway', async () => {
  // The host worker accepts sandboxes shortly after its start.
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

test('`helm upgrade` under load runs the migrations again and replaces the pods without losing acknowledged work', async () => {
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

test('the disruption budget refuses a second eviction until another pod is ready', async () => {
  for (const part of ['api', 'gateway', 'worker']) {
    const [first, second] = await platform.listPods(part);
    await until(() => evict(first!));
    expect(await evict(second!)).toBe(false);
    await until(() => evict(second!), 120_000, 500);
    const others = (await platform.listPods(part)).filter(({ metadata }) => metadata!.uid !== second!.metadata!.uid);
    const isReady = ({ status }: V1Pod) => status?.containerStatuses?.every(({ ready }) => ready) === true;
    expect(others.some(isReady)).toBe(true);
  }
}, 300_000);

test('`helm uninstall` keeps the Secrets, the log of the migrations and the running sandboxes', async () => {
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
