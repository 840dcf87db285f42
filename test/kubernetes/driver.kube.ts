import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxExit } from '../../runtime/driver.ts';
import type { SandboxEnd } from '../../runtime/kubernetes/end-reports.ts';
import { uptimeSeconds } from '../../runtime/uptime.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox } from './support/pods.ts';

let cluster: KubernetesCluster;
let image: string;
let host: DriverHost;
const ends: (SandboxEnd & { atMs: number })[] = [];
const exits: SandboxExit[] = [];

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  const [busybox, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  image = busybox;
  host = await DriverHost.open(cluster, agentImage);
  listen();
}, 300_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 120_000);

function listen(): void {
  host.driver.onEnd((end) => ends.push({ ...end, atMs: performance.now() }));
  host.driver.onExit((exit) => exits.push(exit));
}

const findEnds = (sandboxId: SandboxId) => ends.filter((end) => end.sandboxId === sandboxId);
const readState = async (sandboxId: SandboxId) => (await host.driver.inspect(sandboxId)).state;

test('a sandbox runs in an image without an agent; a pause keeps its disk, and a resume starts it on this disk', async () => {
  const spec = await host.spec(image, { env: { GREETING: 'hello' } });
  const phases: string[] = [];
  const place = await host.driver.create(spec, { onPhase: (phase) => void phases.push(phase) });
  expect(phases).toEqual(['deploying', 'initializing', 'waiting_ready']);
  expect(place).toEqual({ address: expect.any(String), agentPort: 49983, from: 'cold' });
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });
  for (const folder of ['root', 'etc', 'var', 'tmp']) await shell(place, spec, `echo in-${folder} >/${folder}/kept`);
  expect((await shell(place, spec, 'echo $GREETING $HOSTNAME')).output).toBe(`hello ${spec.sandboxId}`);

  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  expect(await host.objects()).toMatchObject({ pods: [], disks: [spec.sandboxId] });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });

  const again = await host.driver.resume({ ...spec, run: 2 });
  expect((await shell(again, spec, 'cat /root/kept /etc/kept /var/kept /tmp/kept')).output).toBe(
    'in-root\nin-etc\nin-var\nin-tmp',
  );
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running', run: 2 });
  const restarted = await host.driver.restart({ ...spec, run: 3 });
  expect((await shell(restarted, spec, 'cat /root/kept')).output).toBe('in-root');
  expect(findEnds(spec.sandboxId)).toEqual([]);
  await host.driver.remove(spec.sandboxId);
  expect(await host.objects()).toEqual({ pods: [], disks: [] });
  expect(await readState(spec.sandboxId)).toBe('absent');
}, 120_000);

test('a sandbox has no token and no variables of the cluster, and only the listed capabilities', async () => {
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  const { output } = await shell(place, spec, 'cat /proc/self/environ; ls /var/run/secrets; cat /proc/self/status');
  expect(output).not.toMatch(/KUBERNETES_|serviceaccount/);
  // CapBnd contains exactly the list in `manifests.ts`. Seccomp 2 means that a system call filter is active.
  expect(output).toMatch(/CapBnd:\s+00000000a00405fb\n/);
  expect(output).toMatch(/Seccomp:\s+2\n/);
  await host.driver.remove(spec.sandboxId);
}, 120_000);

test('the end of a sandbox is reported with its reason within two seconds: deleted, evicted or exited', async () => {
  const specs = await Promise.all([1, 2, 3].map(() => host.spec(image)));
  const [byHand, evicted, ended] = specs;
  await Promise.all(specs.map((spec) => host.driver.create(spec)));
  const { namespace, core } = host;
  const report = async (sandboxId: SandboxId, act: () => Promise<unknown>) => {
    const fromMs = performance.now();
    await act();
    await until(() => findEnds(sandboxId).length > 0);
    const [end] = findEnds(sandboxId);
    expect(end!.atMs - fromMs).toBeLessThan(2000);
    return end!;
  };
  const name = byHand!.sandboxId;
  expect(await report(name, () => core.deleteNamespacedPod({ name, namespace }))).toMatchObject({
    reason: 'deleted',
    run: 1,
  });
  const eviction = { metadata: { name: evicted!.sandboxId, namespace } };
  const evict = () => core.createNamespacedPodEviction({ name: evicted!.sandboxId, namespace, body: eviction });
  expect(await report(evicted!.sandboxId, evict)).toMatchObject({ reason: 'evicted', run: 1 });
  const place = (await host.driver.inspect(ended!.sandboxId)).place!;
  expect(await report(ended!.sandboxId, () => shell(place, ended!, 'kill 1').catch(() => null))).toMatchObject({
    reason: 'exited',
  });
  const codes = Object.fromEntries(exits.map(({ sandboxId, exitCode }) => [sandboxId, exitCode !== null]));
  expect(codes).toEqual({ [name]: false, [evicted!.sandboxId]: false, [ended!.sandboxId]: true });
  await until(async () =>
    (await Promise.all(specs.map(({ sandboxId }) => readState(sandboxId)))).every((each) => each === 'exited'),
  );
  // An evicted sandbox can continue on its disk.
  await until(async () => !(await host.objects()).pods.includes(evicted!.sandboxId));
  await host.driver.resume({ ...evicted!, run: 2 });
  expect(await readState(evicted!.sandboxId)).toBe('running');
  for (const { sandboxId } of specs) expect(findEnds(sandboxId)).toHaveLength(1);
  await Promise.all(specs.map(({ sandboxId }) => host.driver.remove(sandboxId)));
}, 180_000);

test('a reopened driver finds its sandboxes, reports ends that it missed, and removes unknown sandboxes', async () => {
  const specs = await Promise.all([1, 2, 3].map(() => host.spec(image)));
  const [running, ended, unknown] = specs;
  const places = await Promise.all(specs.map((spec) => host.driver.create(spec)));
  await host.driver.close();
  await shell(places[1]!, ended!, 'kill 1').catch(() => null);
  await until(async () => {
    const { status } = await host.core.readNamespacedPod({ name: ended!.sandboxId, namespace: host.namespace });
    return status?.containerStatuses?.[0]?.state?.terminated !== undefined;
  });
  await host.start();
  listen();
  await until(() => findEnds(ended!.sandboxId).length === 1);
  expect(await host.driver.inspect(running!.sandboxId)).toMatchObject({
    state: 'running',
    run: 1,
    place: { address: places[0]!.address },
  });
  expect(await host.driver.reconcile([running!.sandboxId, ended!.sandboxId])).toEqual([unknown!.sandboxId]);
  const { disks } = await host.objects();
  expect(disks.sort()).toEqual([running!.sandboxId, ended!.sandboxId].sort());
  expect(await readState(ended!.sandboxId)).toBe('exited');
  await host.driver.reconcile([]);
  expect(await host.objects()).toEqual({ pods: [], disks: [] });
}, 180_000);

test('a start fails with its reason and leaves no pod when the image is missing or the sandbox is stopped', async () => {
  const missing = await host.spec(`${cluster.registry}/missing@sha256:${'0'.repeat(64)}`);
  await expect(host.driver.create(missing)).rejects.toMatchObject({ code: 'image_pull_failed', retryable: false });
  const stopped = await host.spec(image);
  const creating = host.driver.create(stopped);
  creating.catch(() => {});
  await until(async () => (await host.objects()).pods.includes(stopped.sandboxId));
  await host.driver.stop(stopped.sandboxId);
  await expect(creating).rejects.toMatchObject({ code: 'aborted' });
  await sleep(0);
  expect((await host.objects()).pods).toEqual([]);
  await Promise.all([missing, stopped].map(({ sandboxId }) => host.driver.remove(sandboxId)));
}, 180_000);

test('the nodes measure the use of a sandbox and the capacity of the cluster', async () => {
  const spec = await host.spec(image);
  const { load } = host.driver;
  const { totalMb, availableMb } = load.memory();
  expect(load.coreCount).toBeGreaterThanOrEqual(1);
  expect(availableMb).toBeGreaterThan(0);
  expect(totalMb).toBeGreaterThanOrEqual(availableMb);
  const place = await host.driver.create(spec);
  const usage = async () => (await host.driver.usage()).find(({ sandboxId }) => sandboxId === spec.sandboxId);
  // The first measurement may be from before the start of the agent.
  await until(async () => ((await usage())?.memoryBytes ?? 0) > 1024 ** 2, 60_000);
  const before = (await usage())!;
  expect(before).toMatchObject({ diskTotalBytes: 1024 ** 3 });
  await shell(place, spec, 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done');
  await until(async () => ((await usage())?.cpuSeconds ?? 0) > before.cpuSeconds + 0.1, 60_000);
  expect((await usage())!.sinceMs).toBe(before.sinceMs);
  expect(load.processorUsed()).toBeGreaterThan(0);
  expect(await host.driver.sandboxAt(place.address)).toBe(spec.sandboxId);
  await host.driver.remove(spec.sandboxId);
  expect(await host.driver.sandboxAt(place.address)).toBeNull();
}, 240_000);

test('with a full quota the host reports no free capacity, and a start is refused with `no_capacity`', async () => {
  const spec = await host.spec(image);
  const name = 'full';
  const quota = { metadata: { name }, spec: { hard: { pods: '0' } } };
  await host.core.createNamespacedResourceQuota({ namespace: host.namespace, body: quota });
  await until(() => host.driver.load.memory().availableMb === 0, 60_000);
  await expect(host.driver.create(spec)).rejects.toMatchObject({ code: 'no_capacity' });
  await host.core.deleteNamespacedResourceQuota({ name, namespace: host.namespace });
  await until(() => host.driver.load.memory().availableMb > 0, 60_000);
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('an agent that has ended is detected and restarted, and the other processes of the sandbox continue', async () => {
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  await shell(place, spec, 'sleep 100000 >/dev/null 2>&1 & echo $! >/root/pid');
  await shell(place, spec, 'kill -9 $PPID').catch(() => null);
  await until(() => host.driver.withoutAgent([spec.sandboxId]).length === 1, 30_000);
  await host.driver.restartAgent(spec);
  expect((await shell(place, spec, 'kill -0 $(cat /root/pid) && echo alive')).output).toContain('alive');
  await until(() => host.driver.withoutAgent([spec.sandboxId]).length === 0, 30_000);
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('when no host worker renews the lease, the pods end and the disks stay; with a lease the sandboxes start again', async () => {
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  await shell(place, spec, 'echo kept >/root/kept');
  const { fence } = host.driver;
  await fence.keepOpenUntil(uptimeSeconds() + 600);
  expect(fence.isClosed).toBe(false);
  await fence.keepOpenUntil(uptimeSeconds() + 3);
  await until(async () => fence.isClosed && !(await host.objects()).pods.includes(spec.sandboxId), 60_000);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
  await fence.keepOpenUntil(uptimeSeconds() + 600);
  await until(() => !fence.isClosed, 30_000);
  const again = await host.driver.resume({ ...spec, run: 2 });
  expect((await shell(again, spec, 'cat /root/kept')).output).toBe('kept');
  await host.driver.remove(spec.sandboxId);
}, 240_000);
