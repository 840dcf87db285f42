import { Watch } from '@kubernetes/client-node';
import type { AccountId, SandboxId } from '../../domain/ids.ts';
import type { DriverError, SandboxSpec } from '../../runtime/driver.ts';
import { buildDisk } from '../../runtime/kubernetes/manifests.ts';
import { until } from '../support/until.ts';
import { DriverHost } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

/** The cluster has no nodes, so no pod ever runs, and each start fails after its time limit. */
const maxConcurrentStarts = 4;
const facts = { folders: ['etc', 'root'], user: '0:0', cwd: '/' };
const image = 'registry.example/image';
let cluster: KubernetesCluster;
let host: DriverHost;
let watch: AbortController;
/** The sandboxes that have had a pod, in the order of their pods. */
const made: SandboxId[] = [];
/** The sandboxes that have a pod now. */
const present = new Set<SandboxId>();
const maxPresent = { all: 0, first: 0 };
let ofFirst: SandboxSpec[];

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ kind: 'api-only' });
  // No pod starts on this node, but without a node of their size, sandboxes are refused at once.
  const status = { allocatable: { memory: '8Gi', pods: '110' } };
  await cluster.core.createNode({ body: { metadata: { name: 'node-1' }, status } });
  host = await DriverHost.open(cluster, 'registry.example/agent', { maxConcurrentStarts, podStartTimeoutSeconds: 8 });
  const { namespace } = host;
  // The API server refuses pods without this account. Usually a controller makes it, but none runs here.
  await host.core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'default' } } });
  const note = (phase: string, pod: { metadata: { name: SandboxId } }) => {
    const { name } = pod.metadata;
    if (phase === 'ADDED') made.push(name);
    if (phase === 'ADDED') present.add(name);
    if (phase === 'DELETED') present.delete(name);
    maxPresent.all = Math.max(maxPresent.all, present.size);
    const first = ofFirst.filter(({ sandboxId }) => present.has(sandboxId)).length;
    maxPresent.first = Math.max(maxPresent.first, first);
  };
  watch = await new Watch(cluster.config).watch(`/api/v1/namespaces/${namespace}/pods`, {}, note, () => {});
}, 120_000);
afterAll(async () => {
  watch?.abort();
  await host?.driver.close();
  await cluster?.stop();
}, 60_000);

/** Makes a sandbox with a disk. The disk has the facts about the image, so that no pod inspects the image. */
async function createSpec(accountId: AccountId): Promise<SandboxSpec> {
  const spec = await host.spec(image, { accountId });
  const { namespace } = host;
  await host.core.createNamespacedPersistentVolumeClaim({ namespace, body: buildDisk(spec, facts, host.options) });
  await until(async () => (await host.driver.inspect(spec.sandboxId)).state === 'exited');
  return spec;
}

test('starts above the limit wait without using their time, and one account gets at most half of the places', async () => {
  ofFirst = await Promise.all(Array.from({ length: 6 }, () => createSpec('acc-first')));
  const [ofSecond, cancelled] = [await createSpec('acc-second'), await createSpec('acc-first')];
  const catchFailure = (spec: SandboxSpec, signal?: AbortSignal) =>
    host.driver.create(spec, { signal }).then(
      () => null,
      (error: DriverError) => error,
    );
  const first = ofFirst.map((spec) => catchFailure(spec));
  await until(() => made.length >= 2);
  const caller = new AbortController();
  const refused = catchFailure(cancelled, caller.signal);
  const second = catchFailure(ofSecond);
  await until(() => present.has(ofSecond.sandboxId));
  // The cancelled start still waits behind the other starts of its account.
  caller.abort();
  expect(await refused).toMatchObject({ code: 'aborted' });
  const failures = await Promise.all([...first, second]);
  for (const failure of failures) {
    expect(failure).toMatchObject({ code: 'start_failed', retryable: true });
    expect((failure!.cause as Error).message).toBe('the cluster did not start its pod in time');
  }
  // Every start got its pod before its time ran out, and the second account did not wait for the first.
  expect([...made].sort()).toEqual([...ofFirst, ofSecond].map(({ sandboxId }) => sandboxId).sort());
  expect(made.at(-1)).not.toBe(ofSecond.sandboxId);
  expect(maxPresent).toEqual({ all: 3, first: 2 });
  await until(() => present.size === 0);
}, 120_000);
