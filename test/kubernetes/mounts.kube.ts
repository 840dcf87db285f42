import net from 'node:net';
import { AuthorizationV1Api, NetworkingV1Api } from '@kubernetes/client-node';
import type { MountCredentials, MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxPlace, SandboxSpec, WantedMounts } from '../../runtime/driver.ts';
import type { KubernetesDriverOptions } from '../../runtime/kubernetes/options.ts';
import { shell } from '../runtime/local-host.ts';
import { S3Server, StallingProxy } from '../support/s3-server.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { InstalledMountHelper, pushS3fsImage } from './support/mount-helper.ts';
import { InstalledNodeHelper } from './support/node-helper.ts';
import { pushBusybox } from './support/pods.ts';

/**
 * Tests mounts with a real S3 server outside of the cluster and real s3fs, on a cluster that enforces network policies.
 */
let cluster: KubernetesCluster;
let host: DriverHost;
let helper: InstalledMountHelper;
let s3: S3Server;
let image: string;
let options: Partial<KubernetesDriverOptions>;
const toStop: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  const { machine } = cluster.place.network;
  s3 = await S3Server.startOn(machine, 'data', 'more');
  const [busybox, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  image = busybox;
  const s3fsImage = await pushS3fsImage(cluster.registry);
  // This range contains the machine, the node and all pods. The driver itself must keep the forbidden addresses closed.
  const mounts = { s3fsImage, outboundRanges: ['198.18.0.0/15'], ownServices };
  options = { mounts, clientRanges: [`${machine}/32`], helperTimeoutSeconds: 20 };
  host = await DriverHost.open(cluster, agentImage, options);
  helper = await InstalledMountHelper.install(cluster, host.namespace);
}, 600_000);
afterAll(async () => {
  await host?.close();
  for (const each of toStop) await each.stop();
  await s3?.stop();
  await cluster?.stop();
}, 120_000);

const ownPort = 7999;
const ownServices = async () => [{ address: cluster.place.network.machine, port: ownPort, isInner: true }];

const slot = (fields: Partial<MountSlot> = {}): MountSlot => ({
  slot: 0,
  state: 'active',
  uri: 's3://data/',
  mountPoint: '/mnt/data',
  region: 'us-east-1',
  endpoint: s3.endpoint,
  shortLived: false,
  ...fields,
});
const key = (fields: Partial<MountCredentials> = {}): MountCredentials => ({
  accessKey: s3.accessKey,
  secretKey: s3.secretKey,
  sessionToken: null,
  ...fields,
});
const kept = (...slots: MountSlot[]): WantedMounts => ({ slots, credentials: {}, bestEffort: false });
const anew = (...slots: MountSlot[]): WantedMounts => ({
  ...kept(...slots),
  credentials: Object.fromEntries(slots.map((each) => [each.slot, key()])),
});

/** Splits a word for a shell command, so that a search for the word does not find the command itself. */
const unseen = (word: string) => `'${word.slice(0, 4)}''${word.slice(4)}'`;

const say = async (place: SandboxPlace, spec: SandboxSpec, command: string) =>
  (await shell(place, spec, command, 30)).output;

/** The names of all objects of mounts in the API server. */
async function remains(): Promise<string[]> {
  const of = { namespace: host.namespace, labelSelector: 'sandbox-platform/mount' };
  const networking = cluster.config.makeApiClient(NetworkingV1Api);
  const [pods, secrets, policies] = await Promise.all([
    host.core.listNamespacedPod(of),
    host.core.listNamespacedSecret(of),
    networking.listNamespacedNetworkPolicy(of),
  ]);
  return [...pods.items, ...secrets.items, ...policies.items].map(({ metadata }) => metadata!.name!);
}
const mountPods = async () =>
  (await host.core.listNamespacedPod({ namespace: host.namespace, labelSelector: 'sandbox-platform/mount' })).items;
const secrets = async () => (await host.core.listNamespacedSecret({ namespace: host.namespace })).items;

async function removed(spec: SandboxSpec): Promise<void> {
  await host.driver.remove(spec.sandboxId);
  await until(async () => (await remains()).length === 0, 30_000);
}

/** The error of a create that fails. Expects that no pod and no object of a mount is left. */
async function findRefusal(storage: WantedMounts, more: Partial<SandboxSpec> = {}) {
  const spec = await host.spec(image, { storage, ...more });
  const error = await host.driver.create(spec).then(
    () => Promise.reject(new Error('the sandbox was created')),
    (reason) => reason,
  );
  expect(await host.objects()).toMatchObject({ pods: expect.not.arrayContaining([spec.sandboxId]) });
  await until(async () => (await remains()).length === 0, 30_000);
  await host.driver.remove(spec.sandboxId);
  return { code: error.code as string, message: error.message as string };
}

test('files in the mount are objects of the bucket and vice versa; neither the sandbox nor the cluster shows the keys', async () => {
  s3.write('data', 'reports/old.txt', 'from outside');
  const spec = await host.spec(image, { storage: anew(slot()) });
  const place = await host.driver.create(spec);
  expect(place.slots).toEqual([slot()]);
  expect(await say(place, spec, 'cat /mnt/data/reports/old.txt; echo; echo inside > /mnt/data/new.txt')).toBe(
    'from outside',
  );
  expect(s3.read('data', 'new.txt')).toBe('inside\n');
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });

  const found = await say(
    place,
    spec,
    `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/self/mountinfo; ls /run/secrets /var/run/secrets /root/.aws;
    grep -rs ${unseen(s3.secretKey)} /etc /root /run /tmp /var; grep -E 'CapBnd|CapEff' /proc/self/status`,
  );
  expect(found).not.toContain(s3.secretKey);
  expect(found).not.toContain(s3.accessKey);
  expect(found).toMatch(/CapBnd:\s+00000000a00405fb/);
  expect(found).toMatch(/ \/mnt\/data .* - fuse/);

  const core = host.core;
  const of = { namespace: host.namespace };
  const [pods, events, disks] = await Promise.all([
    core.listNamespacedPod(of),
    core.listNamespacedEvent(of),
    core.listNamespacedPersistentVolumeClaim(of),
  ]);
  const logs = await Promise.all(
    pods.items.map(({ metadata, spec: made }) =>
      core.readNamespacedPodLog({ ...of, name: metadata!.name!, container: made!.containers[0]!.name }),
    ),
  );
  expect(pods.items).toHaveLength(2);
  const visible = JSON.stringify([pods, events, disks, logs, host.warnings]);
  expect(visible).not.toContain(s3.secretKey);
  expect(visible).not.toContain(s3.accessKey);
  const [secret, ...others] = await secrets();
  expect(others).toEqual([]);
  expect(Buffer.from(secret!.data!.credentials!, 'base64').toString()).toContain(s3.secretKey);
  expect(secret!.metadata!.ownerReferences).toMatchObject([
    { kind: 'PersistentVolumeClaim', name: disks.items[0]!.metadata!.name! },
  ]);
  await removed(spec);
}, 180_000);

test.each<[string, () => Promise<WantedMounts> | WantedMounts, RegExp]>([
  [
    'an unknown access key',
    () => ({ ...anew(slot()), credentials: { 0: key({ accessKey: 'NOBODY' }) } }),
    /knows no such bucket, or not this access key|refused/,
  ],
  [
    'a wrong secret key',
    () => ({ ...anew(slot()), credentials: { 0: key({ secretKey: 'wrong' }) } }),
    /the storage refused the credentials/,
  ],
  ['a missing bucket', () => anew(slot({ uri: 's3://nothing-here/' })), /knows no such bucket/],
  ['a name that cannot be resolved', () => anew(slot({ endpoint: 'http://s3.invalid' })), /could not be resolved/],
  ['a private address', () => anew(slot({ endpoint: 'http://10.255.255.1' })), /is not allowed/],
  ['the metadata address', () => anew(slot({ endpoint: 'http://169.254.169.254' })), /is not allowed/],
  ['a mount point that is a file', () => anew(slot({ mountPoint: '/bin/busybox' })), /is not a folder/],
])(
  'with %s the start fails with a reason and leaves nothing',
  async (_, storage, reason) => {
    const { code, message } = await findRefusal(await storage());
    expect({ code, message }).toEqual({ code: 'object_storage_mount_failed', message: expect.stringMatching(reason) });
    expect(message).not.toContain(s3.secretKey);
  },
  120_000,
);

test('a mount of the API server, a node, a pod, a platform service or a closed port fails with the same message', async () => {
  const { machine, node } = cluster.place.network;
  const accepted: string[] = [];
  const server = net.createServer((socket) => {
    accepted.push(socket.remoteAddress!);
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(ownPort, machine, resolve));
  toStop.push({ stop: () => new Promise((resolve) => server.close(() => resolve())) });
  const other = await host.spec(image);
  const { address } = await host.driver.create(other);
  const endpoints = [`${node}:6443`, `${node}:10250`, `${address}:49983`, `${machine}:${ownPort}`, `${machine}:1`];
  const messages: string[] = [];
  for (const endpoint of endpoints) {
    const fromMs = performance.now();
    const { code, message } = await findRefusal(anew(slot({ endpoint: `http://${endpoint}` })));
    expect(code).toBe('object_storage_mount_failed');
    messages.push(message);
    expect(performance.now() - fromMs).toBeGreaterThan(10_000);
  }
  expect(new Set(messages)).toEqual(
    new Set(['s3://data/ could not be mounted: the storage could not be reached, or gave no usable answer']),
  );
  expect(accepted).toEqual([]);
  await host.driver.remove(other.sandboxId);
}, 300_000);

test('mounts that the cluster does not support are refused before any object is made', async () => {
  const { sandboxId: _, ...direct } = await host.spec(image, {
    storage: { ...anew(slot()), direct: { s3fsPath: 's3fs' } },
  });
  const refused = await host.driver.create({ ...direct, sandboxId: 'sbx-direct' }).catch((error) => error);
  expect(refused).toMatchObject({ code: 'not_on_a_cluster' });
  await host.driver.close();
  await host.start({ ...options, mounts: undefined });
  const spec = await host.spec(image, { storage: anew(slot()) });
  await expect(host.driver.create(spec)).rejects.toMatchObject({ code: 'not_on_a_cluster' });
  expect(await host.objects()).toEqual({ pods: [], disks: [] });
  expect(await remains()).toEqual([]);
  await host.driver.close();
  await host.start(options);
}, 60_000);

test('a sandbox that starts again on its disk gets its mounts from its Secrets; short-lived ones need new keys', async () => {
  const short = slot({ slot: 1, uri: 's3://more/', mountPoint: '/srv/a/b', shortLived: true });
  const spec = await host.spec(image, { storage: anew(slot(), short) });
  const place = await host.driver.create(spec);
  await say(place, spec, 'echo before > /mnt/data/pause.txt; echo short > /srv/a/b/short.txt');
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  await until(async () => (await mountPods()).length === 0, 30_000);
  expect(await secrets()).toHaveLength(2);

  const without = host.driver.resume({ ...spec, run: 2, storage: kept(slot(), short) });
  await expect(without).rejects.toMatchObject({ code: 'object_storage_credentials_required' });
  const blind = await host.driver.resume({ ...spec, run: 3, storage: { ...kept(slot(), short), bestEffort: true } });
  expect(blind.slots).toEqual([slot(), { ...short, state: 'disabled' }]);
  expect(await say(blind, spec, 'cat /mnt/data/pause.txt; [ -e /srv/a/b/short.txt ] || echo gone')).toBe(
    'before\ngone',
  );
  expect(await secrets()).toHaveLength(1);
  await removed(spec);
}, 180_000);

test('a bucket that no longer answers delays neither a pause nor the removal of its sandbox', async () => {
  const proxy = await StallingProxy.start(s3.port, cluster.place.network.machine);
  toStop.push(proxy);
  const spec = await host.spec(image, { storage: anew(slot({ endpoint: proxy.endpoint })) });
  const place = await host.driver.create(spec);
  await say(place, spec, 'echo here > /mnt/data/stalled.txt; sleep 0.2');
  proxy.stall();
  await say(place, spec, 'nohup sh -c "ls /mnt/data/other; cat /mnt/data/unknown" >/dev/null 2>&1 & sleep 1');
  const fromMs = performance.now();
  await host.driver.pause(spec.sandboxId);
  expect(performance.now() - fromMs).toBeLessThan(45_000);
  await removed(spec);
}, 180_000);

test('existing mounts work while the mount helper is dead, and it makes new ones after its restart', async () => {
  const spec = await host.spec(image, { storage: anew(slot()) });
  const place = await host.driver.create(spec);
  await helper.kill();
  expect(await say(place, spec, 'echo on > /mnt/data/on; cat /mnt/data/on')).toBe('on');
  const more = await host.spec(image, { storage: anew(slot()) });
  expect(await say(await host.driver.create(more), more, 'cat /mnt/data/on')).toBe('on');
  await host.driver.remove(more.sandboxId);
  await removed(spec);
}, 180_000);

test('a pause that keeps the memory keeps the mounts; a resume can change them, and a failed resume changes nothing', async () => {
  await InstalledNodeHelper.install(cluster, host.namespace);
  const second = slot({ slot: 1, uri: 's3://more/', mountPoint: '/mnt/second' });
  const spec = await host.spec(image, { storage: anew(slot(), second) });
  const place = await host.driver.create(spec);
  await say(place, spec, 'echo before > /mnt/data/pause.txt; echo second > /mnt/second/s');
  const isSeen = async () =>
    (await host.core.readNamespacedPod({ name: spec.sandboxId, namespace: host.namespace })).metadata?.annotations?.[
      'sandbox-platform/frozen-now'
    ] === 'false';
  await until(isSeen, 60_000);
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });

  const third = slot({ slot: 2, uri: 's3://more/', mountPoint: '/mnt/third' });
  const wrong = { ...kept(slot(), second, third), credentials: { 2: key({ secretKey: 'wrong' }) } };
  const failing = host.driver.resume({ ...spec, run: 2, storage: wrong });
  await expect(failing).rejects.toMatchObject({ code: 'object_storage_mount_failed' });
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');

  const off: MountSlot = { ...second, state: 'disabled' };
  // The first mount gets new keys, the second is disabled, and the third is added.
  const change = { ...kept(slot(), off, third), credentials: { 0: key(), 2: key() } };
  const again = await host.driver.resume({ ...spec, run: 3, storage: change });
  expect(again).toMatchObject({ from: 'thaw', slots: [slot(), off, third] });
  const look = `cat /mnt/data/pause.txt /mnt/third/s; grep ' - fuse' /proc/self/mountinfo`;
  const seen = await say(again, spec, look);
  expect(seen).toMatch(/^before\nsecond\n/);
  expect([...seen.matchAll(/ (\/mnt\/\w+) /g)].map(([, point]) => point).sort()).toEqual(['/mnt/data', '/mnt/third']);
  await until(async () => (await secrets()).length === 2 && (await mountPods()).length === 2, 30_000);
  await removed(spec);
}, 240_000);

test('the mount helper may not read Secrets, make pods or run commands in them', async () => {
  const reviews = cluster.config.makeApiClient(AuthorizationV1Api);
  const may = async (verb: string, resource: string, subresource = '') => {
    const resourceAttributes = { verb, resource, namespace: host.namespace, ...(subresource && { subresource }) };
    const spec = { user: 'system:serviceaccount:default:platform-mount-helper', resourceAttributes };
    return (await reviews.createSubjectAccessReview({ body: { spec } })).status!.allowed;
  };
  expect(await may('patch', 'pods', 'status')).toBe(true);
  for (const verb of ['get', 'list', 'watch']) expect(await may(verb, 'secrets')).toBe(false);
  expect(await may('create', 'pods')).toBe(false);
  expect(await may('create', 'pods', 'exec')).toBe(false);
});
