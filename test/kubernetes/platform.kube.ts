import { randomBytes } from 'node:crypto';
import { type CoreV1Api, NetworkingV1Api } from '@kubernetes/client-node';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { askUdp, udpEcho } from '../support/udp.ts';
import { until } from '../support/until.ts';
import { pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { makeVolumes, pushBusybox } from './support/pods.ts';

/**
 * Tests the whole platform. Its processes run on this machine and its sandboxes are pods of a cluster. The tests use
 * the API over HTTP and connect to agents through the gateway, as clients do.
 */
const namespace = `sandboxes-${randomBytes(4).toString('hex')}`;
const hostId = 'cluster-one';
/** The only UDP port for sandboxes of this cluster. */
const udpPort = 31_000;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
let cluster: KubernetesCluster;
let platform: RunningPlatform;
let api: PlatformClient;
let core: CoreV1Api;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  core = cluster.core;
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  await makeVolumes(cluster, namespace, 12);
  const [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  platform = new RunningPlatform({
    PLATFORM_DRIVER: 'kubernetes',
    PLATFORM_HOST_ID: hostId,
    PLATFORM_BASE_IMAGE: image,
    PLATFORM_SANDBOX_SUBNET: cluster.place.network.pods,
    PLATFORM_KUBERNETES_KUBECONFIG: cluster.kubeConfigFile,
    PLATFORM_KUBERNETES_NAMESPACE: namespace,
    PLATFORM_KUBERNETES_AGENT_IMAGE: agentImage,
    PLATFORM_KUBERNETES_STORAGE_CLASS: namespace,
    PLATFORM_KUBERNETES_CLIENT_RANGES: '0.0.0.0/0',
    PLATFORM_KUBERNETES_ISOLATION: 'unchecked',
    PLATFORM_HOST_LEASE_SECONDS: '60',
    // The cluster has no volumes for the disks of warm pods.
    PLATFORM_WARM_POOL_SIZE: '0',
    PLATFORM_UDP_PORTS: `${udpPort}-${udpPort}`,
    PLATFORM_HOST_PUBLIC_ADDRESS: cluster.place.network.node,
  });
  await platform.start();
  api = platform.client();
}, 420_000);

afterAll(async () => {
  await platform?.stop();
  platform?.removeData();
  await cluster?.stop();
}, 180_000);

const call = (sandbox: SandboxView, method: string, path: string, body?: unknown) =>
  api.request<SandboxView>(method, `/v1/sandboxes/${sandbox.sandbox_id}${path}`, body);

/** The kinds of objects that a sandbox has on the cluster. */
async function listObjects({ sandbox_id: name }: SandboxView): Promise<string[]> {
  const [pods, claims, policies] = await Promise.all([
    core.listNamespacedPod({ namespace }),
    core.listNamespacedPersistentVolumeClaim({ namespace }),
    cluster.config.makeApiClient(NetworkingV1Api).listNamespacedNetworkPolicy({ namespace }),
  ]);
  const kinds = { pod: pods.items, claim: claims.items, policy: policies.items };
  return Object.entries(kinds).flatMap(([kind, items]) =>
    items.some(({ metadata }) => metadata?.name === name) ? [kind] : [],
  );
}

async function listServices({ sandbox_id: name }: SandboxView): Promise<string[]> {
  const { items } = await core.listNamespacedService({ namespace });
  return items.flatMap(({ metadata }) => (metadata!.name === name ? [name] : []));
}

const pausedByTheHost = { status: 'paused', reason: 'host_restarted' };

test('a sandbox is created from a template, runs commands and keeps files over a pause; its deletion leaves nothing', async () => {
  const sandbox = await api.createSandbox({ ...small, name: 'whole-life', env_vars: { GREETING: 'hello' } });
  expect(sandbox).toMatchObject({ status: 'running', substatus: null });
  expect(await listObjects(sandbox)).toEqual(['pod', 'claim', 'policy']);
  const agent = platform.agent(sandbox);
  expect(await agent.run('/bin/sh', ['-c', 'echo $GREETING from $HOSTNAME; exit 3'])).toMatchObject({
    exitCode: 3,
    stdout: `hello from ${sandbox.sandbox_id}\n`,
  });
  const ran = await call(sandbox, 'POST', '/exec', { command: 'echo over the API' });
  expect(ran.status).toBe(201);
  await agent.upload('/root/notes/a.txt', 'kept');
  expect((await agent.download('/root/notes/a.txt')).toString()).toBe('kept');

  const paused = await call(sandbox, 'POST', '/pause', {});
  expect(paused.body.data).toMatchObject({ status: 'paused', reason: 'user_requested' });
  expect(await listObjects(sandbox)).toEqual(['claim', 'policy']);
  expect((await agent.request('/health')).status).toBe(502);
  const resumed = await call(sandbox, 'POST', '/resume', {});
  expect(resumed.body.data).toMatchObject({ status: 'running' });
  expect((await agent.download('/root/notes/a.txt')).toString()).toBe('kept');
  const restarted = await call(sandbox, 'POST', '/restart', {});
  expect(restarted.body.data).toMatchObject({ status: 'running', reason: 'restarted' });
  expect((await agent.download('/root/notes/a.txt')).toString()).toBe('kept');

  await api.deleteSandbox(sandbox.sandbox_id, 60_000);
  expect(await listObjects(sandbox)).toEqual([]);
  agent.close();
}, 300_000);

test('the gateway forwards an open port to the server in the pod', async () => {
  const sandbox = await api.createSandbox({ ...small, custom_ports: [{ port: 8000, name: 'web', protocol: 'TCP' }] });
  const agent = platform.agent(sandbox);
  await agent.upload('/root/www/page', 'found');
  await agent.run('httpd', ['-p', '8000', '-h', '/root/www']);
  await until(async () => (await agent.request('/page', { port: 8000 })).status === 200);
  expect((await agent.request('/page', { port: 8000 })).body.toString()).toBe('found');
  expect((await agent.request('/page', { port: 8001 })).status).toBe(401);
  agent.close();
  await api.deleteSandbox(sandbox.sandbox_id, 60_000);
}, 300_000);

test("a UDP port is reachable at the cluster's address and its host_port; when all are taken, another is refused", async () => {
  const port = { port: 5300, name: 'dns', protocol: 'UDP', service_port: 5000 };
  const sandbox = await api.createSandbox({ ...small, custom_ports: [port] });
  const at = `${cluster.place.network.node}:${udpPort}`;
  expect(sandbox.ports).toMatchObject([{ port: 5300, host_port: at }]);
  const agent = platform.agent(sandbox);
  await agent.upload('/root/echo.cjs', udpEcho(5000));
  await agent.start('/.platform/bin/node', ['/root/echo.cjs']);
  expect(await askUdp(at, 'hello')).toContain(`${at} echo hello to `);

  const another = { ...port, port: 5301, name: 'another' };
  const full = { status: 503, body: { code: 'no_capacity' } };
  expect(await api.request('POST', '/v1/sandboxes', { ...small, custom_ports: [another] })).toMatchObject(full);
  expect(await call(sandbox, 'POST', '/ports', another)).toMatchObject(full);
  expect((await call(sandbox, 'DELETE', '/ports/5300')).status).toBe(200);
  expect(await listServices(sandbox)).toEqual([]);
  const added = await call(sandbox, 'POST', '/ports', another);
  expect(added).toMatchObject({ status: 200, body: { data: { port: { host_port: at } } } });
  expect(await askUdp(at, 'again')).toContain(`${at} echo again to `);
  expect(await listServices(sandbox)).toEqual([sandbox.sandbox_id]);
  agent.close();
  await api.deleteSandbox(sandbox.sandbox_id, 60_000);
  expect(await listServices(sandbox)).toEqual([]);
}, 300_000);

test('sandboxes whose pods are deleted or evicted become paused within two seconds, and can resume', async () => {
  const [byHand, evicted] = await Promise.all([api.createSandbox(small), api.createSandbox(small)]);
  const agents = [byHand, evicted].map((sandbox) => platform.agent(sandbox!));
  for (const agent of agents) await agent.upload('/root/kept', 'kept');
  const reported = async (sandbox: SandboxView, act: () => Promise<unknown>) => {
    const fromMs = performance.now();
    await act();
    await until(async () => (await api.sandbox(sandbox.sandbox_id)).status !== 'running');
    expect(performance.now() - fromMs).toBeLessThan(2000);
    expect(await api.sandbox(sandbox.sandbox_id)).toMatchObject(pausedByTheHost);
  };
  const name = (sandbox: SandboxView) => ({ name: sandbox.sandbox_id, namespace });
  await reported(byHand!, () => core.deleteNamespacedPod(name(byHand!)));
  const body = { metadata: name(evicted!) };
  await reported(evicted!, () => core.createNamespacedPodEviction({ ...name(evicted!), body }));
  for (const [at, sandbox] of [byHand!, evicted!].entries()) {
    expect((await call(sandbox, 'POST', '/resume', {})).body.data).toMatchObject({ status: 'running' });
    expect((await agents[at]!.download('/root/kept')).toString()).toBe('kept');
    agents[at]!.close();
    await api.deleteSandbox(sandbox.sandbox_id, 60_000);
    expect(await listObjects(sandbox)).toEqual([]);
  }
}, 300_000);

test('a sandbox fails when its first process ends, and keeps running when another process runs out of memory', async () => {
  const [ended, hungry] = await Promise.all([api.createSandbox(small), api.createSandbox(small)]);
  const agents = [ended, hungry].map((sandbox) => platform.agent(sandbox!));
  await agents[0]!.run('sh', ['-c', 'kill -TERM 1']).catch(() => undefined);
  const failed = await api.untilStatus(ended!.sandbox_id, 'failed');
  expect(failed).toMatchObject({ reason: 'runtime_exited' });
  // With control groups of version 1 the kernel kills one process. With version 2 the kubelet makes it kill all of the
  // pod.
  const killed = await agents[1]!.run('sh', ['-c', 'exec dd if=/dev/zero of=/dev/null bs=1024M count=1']);
  expect(killed.exitCode).not.toBe(0);
  expect((await api.sandbox(hungry!.sandbox_id)).status).toBe('running');
  for (const agent of agents) agent.close();
  for (const sandbox of [ended!, hungry!]) await api.deleteSandbox(sandbox.sandbox_id, 60_000);
}, 300_000);

test('the use of a sandbox is measured and its timeout ends it, even if the host worker was killed meanwhile', async () => {
  const sandbox = await api.createSandbox(small);
  const agent = platform.agent(sandbox);
  const [worker] = platform.findPids('worker/host.ts');
  process.kill(worker!, 'SIGKILL');
  await until(() => platform.findPids('worker/host.ts').some((pid) => pid !== worker), 60_000);
  expect((await agent.run('echo', ['still here'])).stdout).toBe('still here\n');
  const measured = async () => {
    const { body } = await api.request<{ metrics: { mem_used: number }[] }>(
      'GET',
      `/v1/sandboxes/${sandbox.sandbox_id}/metrics`,
    );
    return body.data.metrics.some(({ mem_used: used }) => used > 0);
  };
  await until(measured, 90_000);
  await call(sandbox, 'POST', '/connect', { timeout: 60 });
  agent.close();
  const ended = await api.untilStatus(sandbox.sandbox_id, 'terminated', 120_000);
  expect(ended).toMatchObject({ reason: 'timeout' });
  await until(async () => !(await listObjects(sandbox)).includes('pod'), 60_000);
  await api.deleteSandbox(sandbox.sandbox_id, 60_000);
  expect(await listObjects(sandbox)).toEqual([]);
}, 400_000);
