import { PatchStrategy, setHeaderOptions, type V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { buildPod } from '../../runtime/kubernetes/manifests.ts';
import { annotations } from '../../runtime/kubernetes/names.ts';
import { until } from '../support/until.ts';
import { DriverHost } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

/** Tests freeze requests on a cluster without nodes. The test itself writes the answers of a node helper. */
let cluster: KubernetesCluster;
let host: DriverHost;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ kind: 'api-only' });
  host = await DriverHost.open(cluster, 'registry.example/agent', { helperTimeoutSeconds: 30 });
  const { namespace } = host;
  // The API server refuses pods without this account. Usually a controller makes it, but none runs here.
  await host.core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'default' } } });
}, 120_000);
afterAll(async () => {
  await host?.driver.close();
  await cluster?.stop();
}, 60_000);

const read = (name: string): Promise<V1Pod> => host.core.readNamespacedPod({ name, namespace: host.namespace });
const wanted = async (name: string) => (await read(name)).metadata!.annotations![annotations.frozen];

/** Makes the objects of a ready sandbox on a node whose helper has marked the sandbox's pod. */
const sandbox = (more: Record<string, string> = {}) => readySandbox({ [annotations.frozenNow]: 'false', ...more });

async function readySandbox(more: Record<string, string>): Promise<SandboxId> {
  const { namespace, options } = host;
  const spec = await host.spec('registry.example/image');
  const { sandboxId: name } = spec;
  const pod = buildPod(spec, { folders: ['etc'], user: '0:0', cwd: '/' }, options);
  Object.assign(pod.metadata!.annotations!, {
    [annotations.phase]: 'ready',
    ...more,
  });
  pod.spec!.nodeName = 'node-1';
  await host.core.createNamespacedPod({ namespace, body: pod });
  const disk = { metadata: { name, labels: pod.metadata!.labels }, spec: diskSpec };
  await host.core.createNamespacedPersistentVolumeClaim({ namespace, body: disk });
  const made = await read(name);
  const state = { running: { startedAt: new Date() } };
  const container = { name: 'sandbox', ready: true, restartCount: 0, image: 'image', imageID: 'image', state };
  made.status = { phase: 'Running', podIP: '192.0.2.1', podIPs: [{ ip: '192.0.2.1' }], containerStatuses: [container] };
  await host.core.replaceNamespacedPodStatus({ name, namespace, body: made });
  const isKnown = async () => Boolean((await host.driver.inspect(name)).place?.address);
  await until(isKnown);
  // The driver must know the disk too.
  await until(() =>
    host.driver.requireStartable(spec).then(
      () => true,
      () => false,
    ),
  );
  return name;
}

const diskSpec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };

/** Makes a sandbox and cancels its pause while the API server is down. Returns when the API server is back. */
async function cancelledPause(): Promise<SandboxId> {
  const name = await sandbox();
  const caller = new AbortController();
  const pausing = host.driver.pause(name, caller.signal);
  pausing.catch(() => {});
  await until(async () => (await wanted(name)) === 'true');
  await cluster.node.program('kube-apiserver').kill('SIGKILL');
  caller.abort(new Error('the pause was cancelled'));
  await expect(pausing).rejects.toMatchObject({ code: 'aborted' });
  await cluster.startAgain('kube-apiserver');
  return name;
}

test('a pause that is cancelled while the API server is down leaves no freeze request when it is back', async () => {
  const name = await cancelledPause();
  await until(async () => (await wanted(name)) === 'false', 60_000);
  expect(await host.driver.inspect(name)).toMatchObject({ state: 'running' });
}, 120_000);

test('a new freeze request replaces the withdrawal of an earlier one', async () => {
  const name = await cancelledPause();
  const again = host.driver.pause(name);
  await until(async () => (await wanted(name)) === 'true', 60_000);
  const body = { metadata: { annotations: { [annotations.frozenNow]: 'true' } } };
  await helperSays(name, body);
  expect(await again).toEqual({ kept: 'memory' });
  expect(await wanted(name)).toBe('true');
}, 120_000);

test('a driver that opens withdraws freeze requests that were not carried out, and keeps frozen sandboxes frozen', async () => {
  const [asked, frozen] = [await sandbox(), await sandbox()];
  await host.driver.close();
  await helperSays(asked, { metadata: { annotations: { [annotations.frozen]: 'true' } } });
  const both = { [annotations.frozen]: 'true', [annotations.frozenNow]: 'true' };
  await helperSays(frozen, { metadata: { annotations: both } });
  await host.start();
  await until(async () => (await wanted(asked)) === 'false');
  expect(await host.driver.inspect(asked)).toMatchObject({ state: 'running' });
  expect(await host.driver.inspect(frozen)).toMatchObject({ state: 'paused' });
  expect(await wanted(frozen)).toBe('true');
}, 60_000);

test('a resume fails with a retryable error when the helper does not answer, and the sandbox stays frozen', async () => {
  const name = await sandbox({ [annotations.frozen]: 'true', [annotations.frozenNow]: 'true' });
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 1 });
  const spec = { ...(await host.spec('registry.example/image')), sandboxId: name, run: 2 };
  await expect(host.driver.resume(spec)).rejects.toMatchObject({ code: 'host_unavailable', retryable: true });
  expect(await wanted(name)).toBe('true');
  expect(await host.driver.inspect(name)).toMatchObject({ state: 'paused' });
}, 60_000);

test('a pause just after a start keeps the memory: it waits for the mark of the node’s helper', async () => {
  await sandbox();
  const name = await readySandbox({});
  const pausing = host.driver.pause(name);
  await helperSays(name, { metadata: { annotations: { [annotations.frozenNow]: 'false' } } });
  await until(async () => (await wanted(name)) === 'true');
  await helperSays(name, { metadata: { annotations: { [annotations.frozenNow]: 'true' } } });
  expect(await pausing).toEqual({ kept: 'memory' });
}, 60_000);

async function helperSays(name: string, body: object): Promise<void> {
  const of = { name, namespace: host.namespace, body };
  await host.core.patchNamespacedPod(of, setHeaderOptions('Content-Type', PatchStrategy.MergePatch));
}
