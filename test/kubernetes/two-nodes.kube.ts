import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import type { SandboxEnd } from '../../runtime/kubernetes/end-reports.ts';
import { annotations, isFreeWarm, labels } from '../../runtime/kubernetes/names.ts';
import { parseBytes } from '../../runtime/kubernetes/quantities.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { networkOfAllPods } from './support/cluster-place.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { freezerStates, InstalledNodeHelper } from './support/node-helper.ts';
import { cordon, drain, folderOfNode, onNode, sharedFolder } from './support/placing.ts';
import type { PodNode } from './support/pod-node.ts';
import { pushBusybox } from './support/pods.ts';

/** Tests a host whose cluster has two nodes. The second node has less memory for pods. */
const mib = 1024 ** 2;
const diskMib = { 'node-1': 48, 'node-2': 96 };
type NodeName = keyof typeof diskMib;

let cluster: KubernetesCluster;
let second: PodNode;
let image: string;
let agentImage: string;
/** A host whose disks are on storage that both nodes can mount. */
let host: DriverHost;
/** A host whose disks are each on one node only. */
let bound: DriverHost;
let diskNode: NodeName = 'node-1';
let helper: InstalledNodeHelper;
const ends: SandboxEnd[] = [];

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  second = await cluster.addNode({ reservedMemory: '4Gi' });
  [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  const options = { podNetwork: networkOfAllPods, helperTimeoutSeconds: 60 };
  host = await DriverHost.open(cluster, agentImage, options, sharedFolder(cluster));
  host.driver.onEnd((end) => ends.push(end));
  bound = await DriverHost.open(cluster, agentImage, options, (name) => folderOfNode(diskNode, `/run/${name}`));
}, 300_000);
afterAll(async () => {
  await host?.close();
  await bound?.close();
  await cluster?.stop();
}, 180_000);

interface Sandbox {
  spec: SandboxSpec;
  place: SandboxPlace;
}

async function sandboxOn(node: NodeName, of = host): Promise<Sandbox> {
  const spec = await of.spec(image);
  return { spec, place: await onNode(cluster, node, () => of.driver.create(spec)) };
}

/**
 * Makes a sandbox whose disk is only on one node. The disk is a separate file system whose size identifies the node.
 */
async function sandboxBoundTo(node: NodeName): Promise<Sandbox> {
  diskNode = node;
  const spec = await bound.spec(image);
  const { items } = await cluster.core.listPersistentVolume();
  const folder = items.find(({ spec: volume, status }) => volume?.local && status?.phase === 'Available')!.spec!.local!;
  const there = node === 'node-1' ? cluster.node : second.node;
  await there.run('mkdir', ['-p', folder.path]);
  await there.run('mount', ['-t', 'tmpfs', '-o', `size=${diskMib[node]}M`, 'tmpfs', folder.path]);
  return { spec, place: await bound.driver.create(spec) };
}

const readPod = ({ sandboxId }: SandboxSpec, of = host): Promise<V1Pod> =>
  of.core.readNamespacedPod({ name: sandboxId, namespace: of.namespace });
const readNode = async (spec: SandboxSpec, of = host) => (await readPod(spec, of)).spec!.nodeName;
const findEnds = (sandboxId: SandboxId) => ends.filter((end) => end.sandboxId === sandboxId);
const removeAll = (sandboxes: readonly Sandbox[], of = host) =>
  Promise.all(sandboxes.map(({ spec }) => of.driver.remove(spec.sandboxId)));

async function readMemory(name: string): Promise<number> {
  return parseBytes((await cluster.core.readNode({ name })).status!.allocatable!.memory!);
}

test('sandboxes run on both nodes, and the capacity of the host is the sum of the nodes that take pods', async () => {
  const { load } = host.driver;
  const sizes = { one: await readMemory('node-1'), two: await readMemory('node-2') };
  expect(sizes.one - sizes.two).toBe(4 * 1024 * mib);
  expect(load.memory().totalMb).toBe((sizes.one + sizes.two) / mib);
  const { availableMb } = load.memory();
  expect(availableMb).toBeGreaterThan(0);

  const sandboxes = [await sandboxOn('node-1'), await sandboxOn('node-2')];
  const specs = await Promise.all([1, 2, 3, 4, 5, 6].map(() => host.spec(image)));
  const places = await Promise.all(specs.map((spec) => host.driver.create(spec)));
  sandboxes.push(...specs.map((spec, at) => ({ spec, place: places[at]! })));
  const nodes = await Promise.all(specs.map((spec) => readNode(spec)));
  expect([...new Set(nodes)].sort()).toEqual(['node-1', 'node-2']);
  for (const { spec, place } of sandboxes)
    expect((await shell(place, spec, 'echo $HOSTNAME')).output).toBe(spec.sandboxId);
  const addresses = new Set(sandboxes.map(({ place }) => place.address));
  expect(addresses.size).toBe(8);
  expect(await host.driver.sandboxAt(places[5]!.address)).toBe(specs[5]!.sandboxId);

  await cordon(cluster, 'node-2');
  await until(() => load.memory().totalMb === sizes.one / mib, 30_000);
  await cordon(cluster, 'node-2', false);
  await until(() => load.memory().totalMb === (sizes.one + sizes.two) / mib, 30_000);
  await removeAll(sandboxes);
}, 240_000);

test('a sandbox that fits on no single node is refused and leaves nothing, even if the sum of the nodes has capacity', async () => {
  const larger = (await readMemory('node-1')) / mib;
  const spec = await host.spec(image, { memoryMb: Math.ceil(larger) + 1 });
  expect(host.driver.load.memory().totalMb).toBeGreaterThan(spec.memoryMb);
  await expect(host.driver.create(spec)).rejects.toMatchObject({
    code: 'no_capacity',
    message: `No machine of the cluster has ${spec.memoryMb} MB of memory for one sandbox`,
  });
  expect(await host.objects()).toEqual({ pods: [], disks: [] });

  // The free memory of both nodes together is enough for the last sandbox. Its pod requests all of its memory.
  const options = {
    podNetwork: networkOfAllPods,
    requestShare: { cpu: 1 / 16, memory: 1 },
    podStartTimeoutSeconds: 15,
  };
  const tight = await DriverHost.open(cluster, agentImage, options, sharedFolder(cluster));
  const part = async (share: number) => tight.spec(image, { memoryMb: Math.floor(larger * share) });
  const [one, two, three] = [await part(0.7), await part(0.6), await part(0.35)];
  await onNode(cluster, 'node-1', () => tight.driver.create(one));
  await onNode(cluster, 'node-2', () => tight.driver.create(two));
  await expect(tight.driver.create(three)).rejects.toMatchObject({
    code: 'no_capacity',
    message: 'The cluster has no room for the sandbox now; try again later',
  });
  expect((await tight.objects()).pods.sort()).toEqual([one.sandboxId, two.sandboxId].sort());
  await tight.driver.remove(two.sandboxId);
  await tight.driver.create(three);
  expect(await readNode(three, tight)).toBe('node-2');
  await tight.close();
}, 240_000);

test('the processor time and the disk of a sandbox are measured by its own node', async () => {
  const sandboxes = [await sandboxBoundTo('node-1'), await sandboxBoundTo('node-2')] as const;
  const [one, two] = sandboxes;
  expect([await readNode(one.spec, bound), await readNode(two.spec, bound)]).toEqual(['node-1', 'node-2']);
  await shell(two.place, two.spec, 'dd if=/dev/zero of=/root/filled bs=1M count=32');
  await shell(two.place, two.spec, 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done');
  const usage = async ({ spec }: Sandbox) =>
    (await bound.driver.usage()).find(({ sandboxId }) => sandboxId === spec.sandboxId);
  await until(async () => ((await usage(two))?.diskBytes ?? 0) > 32 * mib && (await usage(one)) !== undefined, 90_000);
  const [first, other] = [(await usage(one))!, (await usage(two))!];
  expect([first.diskTotalBytes, other.diskTotalBytes]).toEqual([48 * mib, 96 * mib]);
  expect(first.diskBytes).toBeLessThan(16 * mib);
  await until(async () => (await usage(two))!.cpuSeconds > (await usage(one))!.cpuSeconds + 0.1, 60_000);
  await removeAll(sandboxes, bound);
}, 240_000);

/** Waits until the node helper has seen a sandbox. */
const whenSeen = ({ spec }: Sandbox) => helper.whenSeen({ name: spec.sandboxId, namespace: host.namespace });

/** The freezer state of the sandbox's container. */
async function readState({ spec }: Sandbox): Promise<string> {
  const pod = await readPod(spec);
  return freezerStates(cluster, pod)[pod.status!.containerStatuses![0]!.containerID!.split('://')[1]!]!;
}

test('each node helper freezes only the sandboxes of its own node', async () => {
  helper = await InstalledNodeHelper.install(cluster, host.namespace);
  await until(async () => (await helper.pod('node-2')) !== null);
  const [one, two] = [await sandboxOn('node-1'), await sandboxOn('node-2')];
  for (const sandbox of [one, two]) {
    await whenSeen(sandbox);
    expect(await host.driver.pause(sandbox.spec.sandboxId)).toEqual({ kept: 'memory' });
  }
  expect([await readState(one), await readState(two)]).toEqual(['FROZEN', 'FROZEN']);
  for (const { spec } of [one, two]) {
    const place = await host.driver.resume({ ...spec, run: 2 });
    expect(place).toMatchObject({ from: 'thaw' });
    expect((await shell(place, spec, 'echo on')).output).toBe('on');
  }

  await helper.signal('SIGSTOP', 'node-2');
  const pausing = host.driver.pause(two.spec.sandboxId);
  await until(async () => (await readPod(two.spec)).metadata!.annotations![annotations.frozen] === 'true');
  // The helper of the other node sees the same control groups and works meanwhile.
  expect(await host.driver.pause(one.spec.sandboxId)).toEqual({ kept: 'memory' });
  expect([await readState(one), await readState(two)]).toEqual(['FROZEN', 'THAWED']);
  expect((await readPod(two.spec)).metadata!.annotations![annotations.frozenNow]).toBe('false');
  await helper.signal('SIGCONT', 'node-2');
  expect(await pausing).toEqual({ kept: 'memory' });
  expect(await readState(two)).toBe('FROZEN');
  await removeAll([one, two]);
}, 300_000);

test('warm pods serve sandboxes from each node, and those of a drained node are made anew on the other node', async () => {
  const options = { podNetwork: networkOfAllPods };
  const warmHost = await DriverHost.open(cluster, agentImage, options, sharedFolder(cluster));
  await warmHost.driver.close();
  await warmHost.addVolumes(12);
  const warm = { size: { least: 2, most: 2 }, base: { image, cpuCount: 1, memoryMb: 256, storageGb: 1 } };
  const filled = () => until(() => warmHost.driver.poolReady === 2, 120_000);
  const freeOn = async () => {
    const { namespace, core } = warmHost;
    const { items } = await core.listNamespacedPod({ namespace, labelSelector: labels.warm });
    return items.filter(isFreeWarm).map(({ spec }) => spec!.nodeName);
  };
  await onNode(cluster, 'node-2', async () => {
    await warmHost.start({ ...options, warm });
    await filled();
  });
  expect(await freeOn()).toEqual(['node-2', 'node-2']);
  // The refill after this create may use either node.
  const spec = await warmHost.spec(image);
  const place = await warmHost.driver.create(spec);
  expect(place.from).toBe('pool');
  expect((await shell(place, spec, 'echo kept >/root/kept; echo $HOSTNAME')).output).toBe(spec.sandboxId);
  await filled();

  const lost: SandboxEnd[] = [];
  warmHost.driver.onEnd((end) => lost.push(end));
  await drain(cluster, 'node-2');
  await until(() => lost.length > 0, 10_000);
  expect(lost).toMatchObject([{ sandboxId: spec.sandboxId, reason: 'evicted', run: 1 }]);
  await until(async () => String(await freeOn()) === 'node-1,node-1' && warmHost.driver.poolReady === 2, 120_000);
  const next = await warmHost.spec(image);
  expect(await warmHost.driver.create(next)).toMatchObject({ from: 'pool' });
  const again = await warmHost.driver.resume({ ...spec, run: 2 });
  expect(again.from).toBe('cold');
  expect(await readNode(spec, warmHost)).toBe('node-1');
  expect((await shell(again, spec, 'cat /root/kept')).output).toBe('kept');
  await cordon(cluster, 'node-2', false);
  await warmHost.close();
}, 400_000);

test('sandboxes of a drained node end and resume on the other node with their files; one with a local disk is refused until the node takes pods again', async () => {
  const [running, frozen, elsewhere] = [
    await sandboxOn('node-2'),
    await sandboxOn('node-2'),
    await sandboxOn('node-1'),
  ];
  const local = await sandboxBoundTo('node-2');
  for (const { spec, place } of [running, frozen, elsewhere, local]) {
    await shell(place, spec, `echo ${spec.sandboxId} >/root/kept; echo kept >/etc/kept`);
  }
  await whenSeen(frozen);
  expect(await host.driver.pause(frozen.spec.sandboxId)).toEqual({ kept: 'memory' });

  await drain(cluster, 'node-2');
  await until(() => findEnds(running.spec.sandboxId).length > 0 && findEnds(frozen.spec.sandboxId).length > 0, 10_000);
  for (const { spec } of [running, frozen]) {
    expect(findEnds(spec.sandboxId)).toMatchObject([{ reason: 'evicted', run: 1 }]);
    expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
    const place = await host.driver.resume({ ...spec, run: 2 });
    expect(place).toMatchObject({ from: 'cold' });
    expect(await readNode(spec)).toBe('node-1');
    expect((await shell(place, spec, 'cat /root/kept /etc/kept')).output).toBe(`${spec.sandboxId}\nkept`);
  }
  expect(findEnds(elsewhere.spec.sandboxId)).toEqual([]);
  expect(await host.driver.inspect(elsewhere.spec.sandboxId)).toMatchObject({ state: 'running', run: 1 });

  const { spec } = local;
  expect(await bound.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
  await expect(bound.driver.resume({ ...spec, run: 2 })).rejects.toMatchObject({
    code: 'host_unavailable',
    message: 'The machine that has the disk of this sandbox takes no sandboxes now; try again when it does',
  });
  expect(await bound.objects()).toEqual({ pods: [], disks: [spec.sandboxId] });
  await cordon(cluster, 'node-2', false);
  const place = await bound.driver.resume({ ...spec, run: 3 });
  expect(await readNode(spec, bound)).toBe('node-2');
  expect((await shell(place, spec, 'cat /root/kept')).output).toBe(spec.sandboxId);
  await removeAll([running, frozen, elsewhere]);
  await removeAll([local], bound);
}, 300_000);
