import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { NetworkingV1Api } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { pushImage } from '../../integrations/registry/image-push.ts';
import { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import type { PackedLayer, SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox } from './support/pods.ts';

/** Tests builds of templates from sandboxes on a cluster. */
let cluster: KubernetesCluster;
let image: string;
let host: DriverHost;
let folder: string;
let registry: PlatformRegistry;
let builds = 0;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  const [busybox, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  image = busybox;
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cluster-builds-'));
  host = await DriverHost.open(cluster, agentImage, { buildsFolder: folder });
  registry = PlatformRegistry.of({
    PLATFORM_REGISTRY: cluster.registry,
    PLATFORM_REGISTRY_INSECURE_HTTP: true,
  } as never)!;
}, 300_000);
afterAll(async () => {
  registry?.close();
  await host?.close();
  await cluster?.stop();
  if (folder) fs.rmSync(folder, { recursive: true, force: true });
}, 120_000);

const newBuild = () => `tpl-build${builds++}`;
const busybox = (names: string) =>
  `for name in ${names}; do /bin/busybox ln -s /bin/busybox /usr/local/bin/$name; done`;
const tools = 'chmod chown ln mkdir mkfifo mv rm stat touch truncate find tr cut kill seq';

async function sandbox(of = image): Promise<{ spec: SandboxSpec; place: SandboxPlace }> {
  const spec = await host.spec(of);
  const place = await host.driver.create(spec);
  return { spec, place };
}

const inside = async ({ spec, place }: Awaited<ReturnType<typeof sandbox>>, script: string): Promise<string> => {
  const path = 'export PATH=/usr/local/bin:/bin';
  const { exitCode, output } = await shell(place, spec, `${path}; ${script}`, 60);
  expect([exitCode, output]).toEqual([0, expect.any(String)]);
  return output.trim();
};

/** The pods of builds, and the entries of the folder of builds. */
async function left(): Promise<{ pods: string[]; files: string[] }> {
  const { items } = await host.core.listNamespacedPod({ namespace: host.namespace });
  const pods = items.flatMap(({ metadata }) => (metadata!.name!.startsWith('build-') ? [metadata!.name!] : []));
  return { pods, files: fs.readdirSync(folder) };
}
const nothingLeft = () =>
  until(async () => {
    const { pods, files } = await left();
    return pods.length === 0 && files.length === 0;
  }, 30_000);

/** Pushes a layer as the platform does. @returns a reference to the image of the new template */
async function pushed(layer: PackedLayer, below: string): Promise<string> {
  const [, path, digest] = /^[^/]+\/(.+)@(sha256:.+)$/.exec(below)!;
  const to = { path: 'templates/made', tag: randomBytes(4).toString('hex') };
  const made = await pushImage(
    registry,
    { base: { path: path!, digest: digest! }, layer, to },
    AbortSignal.timeout(60_000),
  );
  return `${cluster.registry}/${to.path}@${made.digest}`;
}

async function build(sandboxId: SandboxId): Promise<{ id: string; layer: PackedLayer; frozenMs: number }> {
  const id = newBuild();
  const { frozenMs } = await host.driver.builds.copyDisk(id, sandboxId);
  // A second call does not copy the disk again.
  expect(await host.driver.builds.copyDisk(id, sandboxId)).toEqual({ frozenMs: 0, bytes: 0 });
  return { id, layer: await host.driver.builds.packChanges(id, 'acc-test'), frozenMs };
}

test('a template has the files of its sandbox with modes and owners, and not the removed ones; processes continue', async () => {
  const made = await sandbox();
  await inside(
    made,
    `/bin/busybox mkdir -p /usr/local/bin; ${busybox(tools)}
    mkdir -p /opt/made/deep; echo content >/opt/made/file; chown 1000:1001 /opt/made/file; chmod 4751 /opt/made/file
    ln /opt/made/file /opt/made/hard; ln -s ../nowhere /opt/made/link; mkfifo /opt/made/pipe; rm /bin/httpd
    touch -d @86400 /opt/made/file
    (i=0; while :; do i=$((i+1)); echo $i >/root/counter; sleep 0.05; done) >/dev/null 2>&1 & echo $! >/root/pid`,
  );
  const { id, layer, frozenMs } = await build(made.spec.sandboxId);
  console.log(`processes stopped for ${frozenMs} ms, layer of ${layer.size} bytes`);
  expect(frozenMs).toBeGreaterThan(0);
  expect(frozenMs).toBeLessThan(15_000);
  const counter = () => inside(made, 'kill -0 $(cat /root/pid) && cat /root/counter');
  const before = await counter();
  await until(async () => (await counter()) !== before);
  await until(async () => (await left()).pods.length === 0, 30_000);

  const copy = await sandbox(await pushed(layer, image));
  expect(await inside(copy, 'stat -c "%a %u:%g %Y %h" /opt/made/file; cat /opt/made/hard')).toBe(
    '4751 1000:1001 86400 2\ncontent',
  );
  expect(await inside(copy, 'ls -l /opt/made/link | cut -c1; test -p /opt/made/pipe && echo pipe')).toBe('l\npipe');
  expect(await inside(copy, 'test ! -e /bin/httpd && test -e /bin/nc && echo gone')).toBe('gone');
  expect(await inside(copy, 'test -s /root/counter && echo there')).toBe('there');

  // A template of the copy adds only the changes of the copy as a layer.
  await inside(copy, 'echo second >/opt/made/second; rm /opt/made/hard');
  const again = await build(copy.spec.sandboxId);
  expect(again.layer.size).toBeLessThan(20_000);
  const third = await sandbox(await pushed(again.layer, copy.spec.image));
  expect(await inside(third, 'cat /opt/made/second /opt/made/file; test ! -e /opt/made/hard && echo gone')).toBe(
    'second\ncontent\ngone',
  );
  for (const each of [id, again.id]) await host.driver.builds.discard(each);
  await nothingLeft();
  for (const { spec } of [made, copy, third]) await host.driver.remove(spec.sandboxId);
}, 300_000);

test('changes that no image can contain are refused with a description, and leave nothing', async () => {
  const made = await sandbox();
  await inside(made, `/bin/busybox mkdir -p /usr/local/bin; ${busybox(tools)}`);
  const refused = async (script: string, what: RegExp) => {
    await inside(made, script);
    const id = newBuild();
    const failure = await host.driver.builds.copyDisk(id, made.spec.sandboxId).catch((error) => error);
    expect(failure).toMatchObject({ code: 'changes_not_packable', retryable: false });
    expect(failure.message).toMatch(what);
    await expect(host.driver.builds.packChanges(id, 'acc-test')).rejects.toMatchObject({ code: 'snapshot_failed' });
    await host.driver.builds.discard(id);
    await nothingLeft();
  };
  await refused('truncate -s 2G /root/holes', /larger than its disk, holes included/);
  await refused('rm /root/holes; echo >/root/.wh.bin', /a name that begins with \.wh\./);
  const deep = 'name=$(printf "d%.0s" $(seq 200)); for n in $(seq 19); do mkdir $name; cd $name; done';
  await refused(`rm /root/.wh.bin; mkdir /root/deep; cd /root/deep; ${deep}`, /a path that is too long/);
  await host.driver.remove(made.spec.sandboxId);
}, 240_000);

test('processes that continue each other do not delay a build for long, and the sandbox keeps running', async () => {
  const made = await sandbox();
  await inside(made, `/bin/busybox mkdir -p /usr/local/bin; ${busybox(tools)}`);
  // Two processes send SIGCONT to each other. The build may fail or succeed, but it ends.
  await inside(
    made,
    'for n in 1 2; do (while :; do kill -CONT -1 2>/dev/null; done) >/dev/null 2>&1 & done; echo started',
  );
  const id = newBuild();
  const startedMs = performance.now();
  const outcome = await host.driver.builds.copyDisk(id, made.spec.sandboxId).then(
    () => 'made',
    (error) => error.code,
  );
  expect(['made', 'snapshot_failed']).toContain(outcome);
  expect(performance.now() - startedMs).toBeLessThan(120_000);
  expect(await inside(made, 'echo alive')).toBe('alive');
  await host.driver.builds.discard(id);
  await nothingLeft();
  await host.driver.remove(made.spec.sandboxId);
}, 240_000);

test('the removal of a sandbox ends its build and removes the pods of the build', async () => {
  const made = await sandbox();
  const id = newBuild();
  const copying = host.driver.builds.copyDisk(id, made.spec.sandboxId).catch((error) => error);
  await until(async () => (await left()).pods.length === 1);
  await host.driver.remove(made.spec.sandboxId);
  expect(['aborted', 'sandbox_absent', 'snapshot_failed']).toContain((await copying).code);
  await host.driver.builds.discard(id);
  await nothingLeft();
  await expect(host.driver.builds.copyDisk(newBuild(), made.spec.sandboxId)).rejects.toMatchObject({
    code: 'sandbox_absent',
  });
  const policies = await cluster.config
    .makeApiClient(NetworkingV1Api)
    .listNamespacedNetworkPolicy({ namespace: host.namespace });
  // Only the policy that closes all pods of the host is left.
  expect(policies.items.map(({ metadata }) => metadata!.name)).toEqual([`closed-${host.namespace}`]);
  for (const name of fs.readdirSync(folder)) fs.rmSync(path.join(folder, name), { recursive: true });
}, 240_000);

test('an image from outside of the platform’s registry is packed as a whole, with its environment variables', async () => {
  const digest = await host.driver.builds.imageDigest(image);
  expect(digest).toBe(/@(sha256:.+)$/.exec(image)![1]);
  const id = newBuild();
  const { layer, config } = await host.driver.builds.packImage(id, image, 'acc-test');
  expect(config.Env).toEqual([expect.stringMatching(/^PATH=/)]);
  const to = { path: 'trees/busybox', tag: 'one' };
  const whole = await pushImage(registry, { base: null, config, layer, to }, AbortSignal.timeout(60_000));
  const copy = await sandbox(`${cluster.registry}/${to.path}@${whole.digest}`);
  expect(await inside(copy, 'echo works >/root/x; cat /root/x; /bin/busybox readlink /bin/sh')).toBe('works\nbusybox');
  await host.driver.builds.discard(id);
  await nothingLeft();
  await host.driver.remove(copy.spec.sandboxId);
}, 240_000);
