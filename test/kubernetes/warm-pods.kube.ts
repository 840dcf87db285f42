import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import { SchedulingV1Api, type V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { isFreeWarm, labels, readSandboxId } from '../../runtime/kubernetes/names.ts';
import { parseBytes } from '../../runtime/kubernetes/quantities.ts';
import { WarmClaims } from '../../runtime/kubernetes/warm-claims.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox, readyPod, runInPod } from './support/pods.ts';
import type { WarmWorkerTask } from './support/warm-worker.ts';

const word = 'reached';
const dialer = ['/.platform/bin/node', '/.platform/kubernetes/isolation-dialer.cjs', '/dev/stdout'];
const size = { least: 2, most: 3 };
let cluster: KubernetesCluster;
let host: DriverHost;
let image: string;
let agentImage: string;
let server: net.Server;
let outside: { host: string; port: number; word: string };

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  // An address for documentation, which no policy closes. It exists only on the machine's end of the link.
  const onInternet = `203.0.113.${cluster.place.number + 1}`;
  execFileSync('ip', ['address', 'add', `${onInternet}/32`, 'dev', cluster.place.link]);
  server = net.createServer((socket) => socket.on('error', () => socket.destroy()).end(word)).listen(0, onInternet);
  await once(server, 'listening');
  outside = { host: onInternet, port: (server.address() as net.AddressInfo).port, word };
  host = await DriverHost.open(cluster, agentImage);
  await host.driver.close();
  await host.addVolumes(40);
  await host.start({ warm: warm() });
}, 600_000);
afterAll(async () => {
  await host?.close();
  server?.close();
  await cluster?.stop();
}, 180_000);

const warm = () => ({ size, base: { image, cpuCount: 1, memoryMb: 256, storageGb: 1 } });
const filled = (count = size.least) => until(() => host.driver.poolReady >= count, 180_000);

async function podsWith(labelSelector: string): Promise<V1Pod[]> {
  return (await host.core.listNamespacedPod({ namespace: host.namespace, labelSelector })).items;
}

const freePods = async () => (await podsWith(labels.warm)).filter(isFreeWarm);
const listPods = async (id: SandboxId) => (await podsWith(labels.sandbox)).filter((pod) => readSandboxId(pod) === id);

async function readPod(sandboxId: SandboxId): Promise<V1Pod> {
  const [pod, ...others] = await listPods(sandboxId);
  expect(others).toEqual([]);
  return pod!;
}

async function listDisks(sandboxId: SandboxId): Promise<string[]> {
  const { items } = await host.core.listNamespacedPersistentVolumeClaim({ namespace: host.namespace });
  return items.filter((disk) => readSandboxId(disk) === sandboxId).map(({ metadata }) => metadata!.name!);
}

/** Whether a program in the pod can connect to an address within some seconds. */
async function reaches(pod: V1Pod, target: object, wanted: 'reached' | 'closed'): Promise<boolean> {
  const { stdout } = await runInPod(cluster, pod, [...dialer, JSON.stringify({ it: { ...target, wanted } })]);
  const { lastMs } = JSON.parse(stdout).it;
  if (lastMs !== null) process.stdout.write(`reached after ${lastMs} ms\n`);
  return lastMs !== null;
}

test('a warm pod cannot open connections; after a create takes it, it has all properties of the sandbox', async () => {
  await filled();
  const [first, second] = await freePods();
  const api = { host: cluster.place.network.firstService, port: 443 };
  const early = [reaches(first!, outside, 'reached'), reaches(second!, api, 'closed')];
  expect(await Promise.all(early)).toEqual([false, false]);
  const of = (pod: V1Pod) => host.driver.load.findFigures(pod.metadata!.uid!)?.cpuSeconds ?? 0;
  await until(() => of(first!) > 0 && of(second!) > 0, 60_000);
  const before = Math.min(of(first!), of(second!));

  const spec = await host.spec(image, { env: { GREETING: 'hello' }, allowInternetAccess: true, run: 7 });
  const phases: string[] = [];
  const startedMs = performance.now();
  const place = await host.driver.create(spec, { onPhase: (phase) => void phases.push(phase) });
  const output = `${(await shell(place, spec, 'echo here')).output} ${Math.round(performance.now() - startedMs)} ms\n`;
  process.stdout.write(output);
  expect(place).toEqual({ address: expect.any(String), agentPort: 49983, from: 'pool' });
  expect(phases).toEqual(['deploying', 'initializing', 'waiting_ready']);
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });
  const pod = await readPod(spec.sandboxId);
  expect([first, second].map((each) => each!.metadata!.uid)).toContain(pod.metadata!.uid);
  expect(await listDisks(spec.sandboxId)).toEqual([pod.metadata!.name]);

  const { sandboxId: id } = spec;
  const seen = await shell(
    place,
    spec,
    'echo $GREETING $HOSTNAME; cat /etc/hostname; grep -c "[[:space:]]$HOSTNAME$" /etc/hosts',
  );
  expect(seen.output.split('\n')).toEqual([`hello ${id}`, id, '1']);
  expect((await shell(place, spec, 'cat /proc/self/environ')).output).not.toMatch(/AGENT_|KUBERNETES_|NODE_/);
  expect(await reaches(pod, outside, 'reached')).toBe(true);
  expect(await reaches(pod, api, 'closed')).toBe(false);
  expect(await host.driver.inspect(id)).toMatchObject({ state: 'running', run: 7, place: { address: place.address } });
  expect(await host.driver.sandboxAt(place.address)).toBe(id);
  await until(async () => (await host.driver.usage()).some(({ sandboxId }) => sandboxId === id), 60_000);
  const [usage] = await host.driver.usage();
  expect(usage).toMatchObject({ sandboxId: id, memoryBytes: expect.any(Number) });
  // The use of the pod before the create does not count. The tolerance is for the rounding of the differences.
  expect(of(pod) - usage!.cpuSeconds).toBeGreaterThan(before - 1e-6);
  expect(usage!.atMs - usage!.sinceMs).toBeLessThan(120_000);

  // The agent can also be restarted, although the pod's name is not the sandbox's id.
  await shell(place, spec, 'kill -9 $PPID').catch(() => null);
  await until(() => host.driver.withoutAgent([id]).length === 1, 30_000);
  await host.driver.restartAgent(spec);
  expect((await shell(place, spec, 'echo $GREETING $HOSTNAME')).output).toBe(`hello ${id}`);
  await host.driver.remove(id);
}, 400_000);

test('a pause keeps the disk of a warm pod, a resume starts the sandbox on it, and a removal leaves nothing', async () => {
  await filled();
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  expect(place.from).toBe('pool');
  const [disk] = await listDisks(spec.sandboxId);
  await shell(place, spec, 'echo kept >/root/kept');
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  expect(await listPods(spec.sandboxId)).toEqual([]);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited' });
  const again = await host.driver.resume({ ...spec, run: 2 });
  expect(again.from).toBe('cold');
  expect((await shell(again, spec, 'cat /root/kept; echo $HOSTNAME')).output).toBe(`kept\n${spec.sandboxId}`);
  expect(await listDisks(spec.sandboxId)).toEqual([disk]);
  await host.driver.remove(spec.sandboxId);
  expect((await host.objects()).disks).not.toContain(disk);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'absent' });
}, 240_000);

test('concurrent creates never share a pod, and a sandbox of another size gets a new pod', async () => {
  await filled();
  const specs = await Promise.all([1, 2, 3, 4].map((at) => host.spec(image, { env: { NUMBER: `${at}` } })));
  const places = await Promise.all(specs.map((spec) => host.driver.create(spec)));
  expect(new Set(places.map(({ address }) => address)).size).toBe(4);
  expect(places.filter(({ from }) => from === 'pool').length).toBeGreaterThanOrEqual(2);
  const said = await Promise.all(places.map((place, at) => shell(place, specs[at]!, 'echo $NUMBER $HOSTNAME')));
  expect(said.map(({ output }) => output)).toEqual(specs.map(({ sandboxId }, at) => `${at + 1} ${sandboxId}`));
  const larger = await host.spec(image, { memoryMb: 384 });
  expect((await host.driver.create(larger)).from).toBe('cold');
  await Promise.all([...specs, larger].map(({ sandboxId }) => host.driver.remove(sandboxId)));
}, 240_000);

test('only one of two concurrent claims of a pod succeeds, and a pod that was claimed but not used is removed', async () => {
  await filled();
  const claims = new WarmClaims(cluster.config, host.namespace);
  const [pod] = await freePods();
  const named = { name: pod!.metadata!.name!, uid: pod!.metadata!.uid! };
  const specs = [await host.spec(image), await host.spec(image)];
  const { signal } = new AbortController();
  const take = ({ sandboxId }: SandboxSpec) => claims.takePod(named, sandboxId, { run: 1, before: null }, signal);
  const taken = await Promise.all(specs.map(take));
  expect(taken.toSorted()).toEqual([false, true]);
  // A repeated claim succeeds, because the answer to the first one may have been lost.
  const winner = specs[taken.indexOf(true)]!;
  expect(await take(winner)).toBe(true);
  // The pod is only claimed, as if the worker had been killed at this point. A create of the sandbox still succeeds.
  const place = await host.driver.create(winner);
  expect((await shell(place, winner, 'echo $HOSTNAME')).output).toBe(winner.sandboxId);
  await until(async () => !(await host.objects()).pods.includes(named.name), 60_000);
  await host.driver.remove(winner.sandboxId);
  await until(async () => {
    await host.driver.reconcile([]);
    return !(await host.objects()).disks.includes(named.name);
  }, 120_000);
}, 300_000);

test('a worker that is killed while it claims a pod leaves nothing, and the next worker replaces its warm pods', async () => {
  await host.driver.close();
  await until(async () => (await host.objects()).disks.length === 0, 60_000);
  const spec = await host.spec(image);
  const { namespace, hostId, storageClass, clientRanges, podNetwork } = host.options;
  const options = { namespace, hostId, agentImage, storageClass, clientRanges, podNetwork, warm: warm() };
  const task: WarmWorkerTask = { kubeConfigFile: cluster.kubeConfigFile, options, spec };
  const worker = startWorker(task);
  const exited = once(worker, 'exit');
  await Promise.race([once(worker, 'message'), exited]);
  const earlier = (await freePods()).map(({ metadata }) => metadata!.name!);
  expect(earlier.length).toBeGreaterThan(0);
  await until(async () => (await listPods(spec.sandboxId)).length > 0, 30_000, 2);
  worker.kill('SIGKILL');
  await exited;
  await host.start({ warm: warm() });
  const place: SandboxPlace = await host.driver.create(spec);
  expect((await shell(place, spec, 'echo $HOSTNAME')).output).toBe(spec.sandboxId);
  await filled();
  await host.driver.remove(spec.sandboxId);
  const left = async () => {
    const { pods, disks } = await host.objects();
    return [...pods, ...disks].filter((name) => earlier.includes(name) || name === spec.sandboxId);
  };
  await until(async () => (await left()).length === 0, 60_000);
}, 300_000);

test('a deleted warm pod is replaced, and warm pods of an image without a template end', async () => {
  await filled();
  const [pod] = await freePods();
  await host.core.deleteNamespacedPod({ name: pod!.metadata!.name!, namespace: host.namespace });
  await until(async () => {
    const names = (await freePods()).map(({ metadata }) => metadata!.name);
    return names.length >= size.least && !names.includes(pod!.metadata!.name);
  }, 120_000);
  await filled();
  await host.driver.dropPooled(image);
  expect([host.driver.poolReady, await freePods()]).toEqual([0, []]);
  await host.driver.close();
  await host.start({ warm: warm() });
}, 240_000);

test('warm pods end when a quota or the nodes have no capacity for a sandbox', async () => {
  await filled();
  const { namespace, core } = host;
  const { pods } = await host.objects();
  const name = 'full';
  const quota = { metadata: { name }, spec: { hard: { pods: `${pods.length}` } } };
  await core.createNamespacedResourceQuota({ namespace, body: quota });
  await until(async () => {
    const { status } = await core.readNamespacedResourceQuota({ name, namespace });
    return status?.used?.pods === `${pods.length}`;
  });
  await until(() => host.driver.load.memory().availableMb > 0, 60_000);
  const larger = await host.spec(image, { memoryMb: 384 });
  expect((await host.driver.create(larger)).from).toBe('cold');
  await core.deleteNamespacedResourceQuota({ name, namespace });
  await host.driver.remove(larger.sandboxId);

  await host.driver.close();
  await host.start({ warm: warm() });
  await filled();
  const filler = await fillNode();
  const other = await host.spec(image, { memoryMb: 320 });
  expect((await host.driver.create(other)).from).toBe('cold');
  await core.deleteNamespacedPod({ name: filler, namespace: 'default' });
  await host.driver.remove(other.sandboxId);
}, 400_000);

test('a sandbox takes the capacity of a placeholder pod with a lower priority, and the warm pods stay', async () => {
  const placeholders = { metadata: { name: 'placeholder' }, value: -10 };
  await cluster.config.makeApiClient(SchedulingV1Api).createPriorityClass({ body: placeholders });
  await filled();
  const listUids = (pods: readonly V1Pod[]) => pods.map(({ metadata }) => metadata!.uid!).sort();
  const before = listUids(await freePods());
  const filler = await fillNode('placeholder');
  const spec = await host.spec(image, { memoryMb: 384 });
  expect((await host.driver.create(spec)).from).toBe('cold');
  expect(listUids(await freePods())).toEqual(expect.arrayContaining(before));
  const { items } = await host.core.listNamespacedPod({ namespace: 'default' });
  expect(items.filter(({ metadata }) => metadata!.name === filler && !metadata!.deletionTimestamp)).toEqual([]);
  await host.driver.remove(spec.sandboxId);
}, 240_000);

/** Makes a pod that requests the free memory of the node, except for less than a sandbox requests. @returns its name */
async function fillNode(priorityClassName?: string): Promise<string> {
  const [node] = (await host.core.listNode()).items;
  const { items } = await host.core.listPodForAllNamespaces();
  const requested = items
    .filter(({ status }) => status?.phase === 'Running')
    .flatMap(({ spec }) => spec!.containers)
    .reduce((sum, { resources }) => sum + parseBytes(resources?.requests?.memory ?? '0'), 0);
  const free = parseBytes(node!.status!.allocatable!.memory!) - requested - 40 * 2 ** 20;
  const container = {
    name: 'main',
    image,
    command: ['sleep', '3600'],
    resources: { requests: { memory: `${Math.floor(free / 1024)}Ki` } },
  };
  await readyPod(cluster, {
    metadata: { name: 'filler', namespace: 'default' },
    spec: {
      containers: [container],
      terminationGracePeriodSeconds: 0,
      ...(priorityClassName && { priorityClassName }),
    },
  });
  return 'filler';
}

function startWorker(task: WarmWorkerTask): ChildProcess {
  const program = path.join(import.meta.dirname, 'support/warm-worker.ts');
  const execArgv = ['--disable-warning=ExperimentalWarning'];
  return fork(program, [JSON.stringify(task)], { execArgv, env: { ...process.env, NODE_OPTIONS: '' } });
}
