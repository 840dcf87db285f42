import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ApiException,
  AuthorizationV1Api,
  CoreV1Api,
  KubeConfig,
  PatchStrategy,
  setHeaderOptions,
  type V1Pod,
} from '@kubernetes/client-node';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { annotations } from '../../runtime/kubernetes/names.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { freezerStates, InstalledNodeHelper } from './support/node-helper.ts';
import { pushBusybox, readyPod } from './support/pods.ts';

let cluster: KubernetesCluster;
let image: string;
let host: DriverHost;
let helper: InstalledNodeHelper;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  const [busybox, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  image = busybox;
  host = await DriverHost.open(cluster, agentImage, { helperTimeoutSeconds: 60 });
}, 300_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 120_000);

const readPod = async ({ sandboxId }: SandboxSpec): Promise<V1Pod> =>
  host.core.readNamespacedPod({ name: sandboxId, namespace: host.namespace });
const readAnnotation = async (spec: SandboxSpec, name: string) => (await readPod(spec)).metadata?.annotations?.[name];
/** The freezer states of the sandbox's container and of the pod's other container, which holds the network. */
async function readStates(spec: SandboxSpec): Promise<{ own: string; others: string[] }> {
  const pod = await readPod(spec);
  const id = pod.status!.containerStatuses![0]!.containerID!.split('://')[1]!;
  const { [id]: own, ...others } = freezerStates(cluster, pod);
  return { own: own!, others: Object.values(others) };
}
/** A process that keeps a word only in its memory. It writes the word to a file when it gets a signal. */
const remember = 'word=kept-in-memory; trap "echo \\$word >/tmp/answer" USR1; while :; do sleep 0.1; done';
const begin = `sh -c '${remember}' </dev/null >/dev/null 2>&1 & echo $!`;
const recall = (pid: string) =>
  `kill -USR1 ${pid} && for i in 1 2 3 4 5 6 7 8 9 10; do [ -f /tmp/answer ] && break; sleep 0.2; done; cat /tmp/answer`;

async function remembering(overrides: Partial<SandboxSpec> = {}) {
  const spec = await host.spec(image, overrides);
  const place = await host.driver.create(spec);
  const { output: pid } = await shell(place, spec, begin);
  expect(pid).toMatch(/^\d+$/);
  return { spec, pid };
}

test('without a node helper a pause keeps only the disk', async () => {
  const spec = await host.spec(image);
  await host.driver.create(spec);
  expect(await readAnnotation(spec, annotations.frozenNow)).toBeUndefined();
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  await host.driver.remove(spec.sandboxId);
}, 120_000);

test('with a node helper a pause freezes all processes of the sandbox, and a resume lets them continue', async () => {
  // The helper also serves sandboxes that were created before it.
  const { spec, pid } = await remembering();
  helper = await InstalledNodeHelper.install(cluster, host.namespace);
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');

  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  expect(await readStates(spec)).toEqual({ own: 'FROZEN', others: ['THAWED'] });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'paused', run: 1 });
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });

  const place = await host.driver.resume({ ...spec, run: 2 });
  expect(place).toMatchObject({ from: 'thaw' });
  expect(await readStates(spec)).toMatchObject({ own: 'THAWED' });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running', run: 2 });
  expect((await shell(place, spec, recall(pid))).output).toBe('kept-in-memory');
  expect(await host.driver.resume({ ...spec, run: 2 })).toMatchObject({ from: 'existing' });

  // Repeated requests must not be answered with the state of an earlier request.
  for (let run = 3; run < 13; run += 1) {
    expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
    expect(await readStates(spec)).toMatchObject({ own: 'FROZEN' });
    expect(await host.driver.resume({ ...spec, run })).toMatchObject({ from: 'thaw' });
    expect(await readStates(spec)).toMatchObject({ own: 'THAWED' });
  }
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a sandbox has at most 1,024 processes, and its agent still answers at that limit', async () => {
  const spec = await host.spec(image, { memoryMb: 1024 });
  const place = await host.driver.create(spec);
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  // Only commands of the shell itself run after the subshell, because nothing else can start at the limit.
  const bomb =
    '(while :; do sleep 600 & done) 2>/tmp/errors; set -- /proc/[0-9]*; echo $#; read error </tmp/errors; echo $error';
  const [count, error] = (await shell(place, spec, bomb)).output.split('\n');
  expect(error).toMatch(/can't fork/);
  expect(Number(count)).toBeGreaterThan(900);
  expect(Number(count)).toBeLessThanOrEqual(1024);
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a node helper without any change on its node for more than a minute still freezes at once', async () => {
  const { spec } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 5 });
  // This is longer than several watch requests without a change.
  await delay(75_000);
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 60 });
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a node helper that is killed between the request and the freeze freezes after its restart', async () => {
  const { spec, pid } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  await helper.signal('SIGSTOP');
  const pausing = host.driver.pause(spec.sandboxId);
  await until(async () => (await readAnnotation(spec, annotations.frozen)) === 'true');
  expect(await readStates(spec)).toMatchObject({ own: 'THAWED' });
  await helper.kill();
  expect(await pausing).toEqual({ kept: 'memory' });
  expect(await readStates(spec)).toMatchObject({ own: 'FROZEN' });

  // A sandbox stays frozen without the helper, and the next helper process thaws it.
  await helper.signal('SIGSTOP');
  const resuming = host.driver.resume({ ...spec, run: 2 });
  await until(async () => (await readAnnotation(spec, annotations.frozen)) === 'false');
  await helper.kill();
  const place = await resuming;
  expect((await shell(place, spec, recall(pid))).output).toBe('kept-in-memory');
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a resume after the helper was killed waits until the kubelet restarts it, or fails with a retryable error', async () => {
  const { spec, pid } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  await host.driver.close();
  // This driver has the default time limits.
  await host.start();
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  await helper.signal('SIGKILL');
  const fromMs = performance.now();
  let place: SandboxPlace | null = null;
  for (let run = 2; !place; run += 1) {
    place = await host.driver.resume({ ...spec, run }).catch((error) => {
      expect(error).toMatchObject({ code: 'host_unavailable', retryable: true });
      expect(performance.now() - fromMs).toBeLessThan(120_000);
      return null;
    });
  }
  expect(place).toMatchObject({ from: 'thaw' });
  expect((await shell(place, spec, recall(pid))).output).toBe('kept-in-memory');
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 60 });
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a freeze that a killed host worker has requested is carried out, and the next worker finds the sandbox paused', async () => {
  const { spec, pid } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  await helper.signal('SIGSTOP');
  const worker = pausingWorker(spec);
  await until(async () => (await readAnnotation(spec, annotations.frozen)) === 'true');
  const ended = once(worker, 'exit');
  worker.kill('SIGKILL');
  await ended;
  expect(await readStates(spec)).toMatchObject({ own: 'THAWED' });
  await helper.signal('SIGCONT');
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'true');
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 60 });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'paused', run: 1 });
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  const place = await host.driver.resume({ ...spec, run: 2 });
  expect((await shell(place, spec, recall(pid))).output).toBe('kept-in-memory');
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('when the helper does not answer, the pause succeeds but keeps only the disk', async () => {
  const { spec } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 1 });
  await helper.signal('SIGSTOP');
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  await helper.signal('SIGCONT');
  await host.driver.close();
  await host.start({ helperTimeoutSeconds: 60 });
  const place = await host.driver.resume({ ...spec, run: 2 });
  expect(place).toMatchObject({ from: 'cold' });
  expect((await shell(place, spec, 'cat /tmp/answer || echo nothing')).output).toContain('nothing');
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a resume whose agent refuses the platform’s token freezes the sandbox again and fails with a reason', async () => {
  const { spec } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  const wrong = { ...spec, run: 2, platformToken: 'not-its-token' };
  await expect(host.driver.resume(wrong)).rejects.toMatchObject({ code: 'agent_not_answering' });
  expect(await readStates(spec)).toMatchObject({ own: 'FROZEN' });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'paused' });
  expect(await host.driver.resume({ ...spec, run: 3 })).toMatchObject({ from: 'thaw' });
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a frozen sandbox can be stopped, removed, deleted with kubectl and restarted on its disk', async () => {
  const all = await Promise.all([remembering(), remembering(), remembering()]);
  const [stopped, byHand, restarted] = all.map(({ spec }) => spec);
  for (const { spec } of all) {
    await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
    expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  }
  await host.driver.stop(stopped!.sandboxId);
  expect((await host.objects()).pods).not.toContain(stopped!.sandboxId);
  await host.core.deleteNamespacedPod({ name: byHand!.sandboxId, namespace: host.namespace });
  await until(async () => !(await host.objects()).pods.includes(byHand!.sandboxId));
  await until(async () => (await host.driver.inspect(byHand!.sandboxId)).state === 'exited');
  expect(await host.driver.restart({ ...restarted!, run: 2 })).toMatchObject({ from: 'cold' });
  expect(await readStates(restarted!)).toMatchObject({ own: 'THAWED' });
  await Promise.all(all.map(({ spec }) => host.driver.remove(spec.sandboxId)));
}, 240_000);

test('the helper never freezes pods without the labels of a sandbox or pods of other namespaces', async () => {
  const ours = { 'app.kubernetes.io/managed-by': 'sandbox-platform', 'sandbox-platform/sandbox': 'sbx-somebody' };
  const asking = (name: string, namespace: string, labels: Record<string, string>): V1Pod => ({
    metadata: { name, namespace, labels, annotations: { [annotations.frozen]: 'true' } },
    spec: {
      containers: [{ name: 'sandbox', image, command: ['sleep', '1000000'] }],
      terminationGracePeriodSeconds: 0,
    },
  });
  const foreign = [
    await readyPod(cluster, asking('unlabelled', host.namespace, {})),
    await readyPod(cluster, asking('elsewhere', 'default', ours)),
  ];
  // When this later sandbox is frozen, the helper has already seen the other pods.
  const { spec } = await remembering();
  await until(async () => (await readAnnotation(spec, annotations.frozenNow)) === 'false');
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
  for (const { metadata } of foreign) {
    const pod = await host.core.readNamespacedPod({ name: metadata!.name!, namespace: metadata!.namespace! });
    expect(Object.values(freezerStates(cluster, pod))).toEqual(['THAWED', 'THAWED']);
    expect(pod.metadata!.annotations).not.toHaveProperty([annotations.frozenNow]);
    await host.core.deleteNamespacedPod({ name: metadata!.name!, namespace: metadata!.namespace! });
  }
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('the helper’s account may only read pods and write their status in the namespace of the sandboxes', async () => {
  const reviews = cluster.config.makeApiClient(AuthorizationV1Api);
  const may = async (verb: string, resource: string, { subresource = '', namespace = host.namespace } = {}) => {
    const resourceAttributes = { verb, resource, namespace, ...(subresource && { subresource }) };
    const spec = { user: 'system:serviceaccount:default:platform-node-helper', resourceAttributes };
    return (await reviews.createSubjectAccessReview({ body: { spec } })).status!.allowed;
  };
  expect(await may('watch', 'pods')).toBe(true);
  expect(await may('patch', 'pods', { subresource: 'status' })).toBe(true);
  expect(await may('patch', 'pods')).toBe(false);
  expect(await may('delete', 'pods')).toBe(false);
  expect(await may('create', 'pods', { subresource: 'exec' })).toBe(false);
  expect(await may('get', 'secrets')).toBe(false);
  expect(await may('list', 'pods', { namespace: 'default' })).toBe(false);
});

describe('a token of the helper’s account', () => {
  const account = { namespace: 'default', name: 'platform-node-helper' };
  const otherNode = 'node-of-the-test';

  /** A pod of the account on a node, as a DaemonSet would make it. The other node exists only as an object. */
  async function helperPodOn(node: string): Promise<V1Pod> {
    if (node !== otherNode) return (await helper.pod())!;
    const spec = { nodeName: node, serviceAccountName: account.name, containers: [{ name: 'main', image }] };
    const metadata = { name: 'helper-of-the-test', namespace: account.namespace };
    return host.core.createNamespacedPod({ namespace: account.namespace, body: { metadata, spec } });
  }

  /** Writes an annotation with a token that is bound to a pod. @param pod null for a token that is bound to no pod */
  async function annotateAs(pod: V1Pod | null, spec: SandboxSpec): Promise<string> {
    const bound = pod && { apiVersion: 'v1', kind: 'Pod', name: pod.metadata!.name!, uid: pod.metadata!.uid! };
    const body = { spec: { audiences: [], expirationSeconds: 600, ...(bound && { boundObjectRef: bound }) } };
    const { status } = await host.core.createNamespacedServiceAccountToken({ ...account, body });
    const config = new KubeConfig();
    config.loadFromClusterAndUser(cluster.config.getCurrentCluster()!, { name: 'helper', token: status!.token! });
    const patch = { metadata: { annotations: { 'of-the-test': 'written' } } };
    const of = { name: spec.sandboxId, namespace: host.namespace, body: patch };
    const options = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
    return config
      .makeApiClient(CoreV1Api)
      .patchNamespacedPodStatus(of, options)
      .then(
        () => 'done',
        (error: ApiException<string>) => `${error.code} ${JSON.parse(error.body).message}`,
      );
  }

  test('allows changes only to pods of its own node', async () => {
    const { spec } = await remembering();
    await host.core.createNode({ body: { metadata: { name: otherNode } } });
    try {
      const [own, other] = [await helperPodOn('node-1'), await helperPodOn(otherNode)];
      const refused = /^403 .*this account may change only pods of its own node/;
      expect(await annotateAs(other, spec)).toMatch(refused);
      expect(await annotateAs(null, spec)).toMatch(refused);
      expect(await readAnnotation(spec, 'of-the-test')).toBeUndefined();
      expect(await annotateAs(own, spec)).toBe('done');
      expect(await readAnnotation(spec, 'of-the-test')).toBe('written');
    } finally {
      const of = { name: 'helper-of-the-test', namespace: account.namespace };
      await host.core.deleteNamespacedPod({ ...of, gracePeriodSeconds: 0 });
      await host.core.deleteNode({ name: otherNode });
      await host.driver.remove(spec.sandboxId);
    }
  }, 120_000);
});

function pausingWorker({ sandboxId }: SandboxSpec): ChildProcess {
  const script = path.join(import.meta.dirname, 'support/pausing-worker.ts');
  const words = [script, cluster.kubeConfigFile, host.namespace, sandboxId];
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...words], { stdio: 'inherit' });
}
