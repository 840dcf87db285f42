import { spawn } from 'node:child_process';
import { innerLoopbackAddress, isOutboundAddressAllowed } from '../../domain/outbound-addresses.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import { namedServices, ownServices } from '../../platform/config/own-services.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { s3fsRootIn } from '../../runtime/mounts/s3fs-root.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { openCopy } from '../../runtime/oci/copy.ts';
import { holdBucket } from '../../runtime/oci/mounts/bucket-mount.ts';
import { findRuntime } from '../../runtime/oci/oci-runtime.ts';
import { readPids } from '../../runtime/oci/sandbox-records.ts';
import { seccompConfig } from '../../runtime/oci/seccomp.ts';
import { ensureRuntimeFolder } from '../../runtime/sandbox-agent/runtime-folder.ts';
import { LocalHost, nothing, onHost, shell } from '../runtime/local-host.ts';
import { OutsideNetwork } from '../runtime/outside-network.ts';
import { freePort } from '../support/free-port.ts';
import { Canary } from '../support/hostile-storage.ts';
import { until } from '../support/until.ts';

/**
 * A tenant uses the platform's own services as the endpoint of a bucket, with every spelling of their address, although
 * the operator has opened every range. A listener stands in for each service and counts connections.
 */
const names = ['database', 'temporal', 'web UI', 'API', 'gateway', 'registry', 'TURN', 'history'] as const;
const everything = ['0.0.0.0/0', '::/0'];
/** A failure is reported after half of it. */
const timeoutSeconds = 4;
const services = new Map<string, Canary>();
let other: Canary;
let outside: OutsideNetwork;
let host: LocalHost;
let spec: SandboxSpec;
let place: SandboxPlace;
let resolve: () => ReturnType<typeof ownServices>;

beforeAll(async () => {
  outside = new OutsideNetwork(91);
  for (const name of names) services.set(name, await Canary.start('::'));
  other = await Canary.start('::');
  const port = (name: (typeof names)[number]) => services.get(name)!.port;
  const settings = loadSettings({
    PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
    DATABASE_URL: `postgres://platform:secret@127.0.0.1:${port('database')}/platform`,
    TEMPORAL_ADDRESS: `localhost:${port('temporal')}`,
    TEMPORAL_UI_URL: `http://127.0.0.1:${port('web UI')}`,
    PLATFORM_API_PORT: `${port('API')}`,
    PLATFORM_GATEWAY_HOST: '0.0.0.0',
    PLATFORM_GATEWAY_PORT: `${port('gateway')}`,
    PLATFORM_REGISTRY: `127.0.0.1:${port('registry')}`,
    PLATFORM_TURN_SECRET: 'secret',
    PLATFORM_TURN_PUBLIC_HOST: '127.0.0.1',
    PLATFORM_TURN_PUBLIC_PORT: `${port('TURN')}`,
    PLATFORM_INTERNAL_SERVICES: `127.0.0.1:${port('history')},${outside.far}:5432`,
  });
  resolve = () => ownServices(namedServices(settings));
  host = await LocalHost.open({ outboundRanges: everything, ownServices: resolve });
  spec = host.spec({ memoryMb: 1024, allowInternetAccess: true });
  place = await host.driver.create(spec);
}, 300_000);

afterAll(async () => {
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
  await host.close();
  for (const each of [...services.values(), other]) await each.stop();
  outside.remove();
}, 300_000);

/** Hosts that are addresses of this machine. */
const spellings = () => [
  '127.0.0.1',
  '127.9.9.9',
  'localhost',
  '0.0.0.0',
  '2130706433',
  '0x7f000001',
  '017700000001',
  '[::1]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  host.driver.gateway,
  host.driver.hostAddress,
];

/** The error that a caller gets for an endpoint, and its duration. */
async function findRefusal(endpoint: string): Promise<{ message: string; seconds: number }> {
  const copy = await openCopy(host.dataDir, host.options().logger);
  const { agentDir, cacheDir } = host.options();
  const cgroups = new Cgroups(copy.cgroup);
  const runtime = await findRuntime(host.options().runtime, cgroups);
  const folder = `${copy.sandboxesFolder}/${spec.sandboxId}`;
  const pids = readPids(folder)!;
  const own = await resolve();
  const slot: MountSlot = {
    ...{ slot: 0, state: 'active', uri: 's3://data/', mountPoint: '/mnt/data' },
    ...{ region: 'us-east-1', endpoint, shortLived: false },
  };
  const startedMs = Date.now();
  const uidBase = Number(onHost('stat', '-c', '%u', `/proc/${pids.initPid}`));
  const error = await holdBucket(
    { folder, instance: spec.sandboxId, shimPid: pids.shim.pid, initPid: pids.initPid, uidBase },
    slot,
    { accessKey: 'A', secretKey: 'B', sessionToken: null },
    {
      gid: copy.storageGid,
      runtime,
      s3fsRoot: s3fsRootIn(cacheDir),
      seccomp: await seccompConfig(cacheDir, runtime, await ensureRuntimeFolder(cacheDir, agentDir)),
      cgroups,
      egress: () => ({ allowedRanges: everything, closedRanges: [host.driver.subnet], ownServices: own }),
      timeoutSeconds,
      onHolder: async () => {},
    },
  ).then(
    () => Promise.reject(new Error('it was mounted')),
    (reason: Error) => reason,
  );
  return { message: error.message, seconds: (Date.now() - startedMs) / 1000 };
}

const words = 's3://data/ could not be mounted: the storage could not be reached, or gave no usable answer';

test('the platform knows its own services by their settings', async () => {
  const own = await resolve();
  for (const canary of services.values())
    expect(own).toContainEqual(expect.objectContaining({ address: 'local', port: canary.port }));
  expect(own).toContainEqual({ address: outside.far, port: 5432, isInner: true });
});

test('the servers of metrics are among them, and the address of those without a password is never opened', () => {
  const ports = { API: '7101', GATEWAY: '7102', WORKER: '7103', HOST: '7104' };
  const env = Object.entries(ports).map(([name, port]) => [`PLATFORM_${name}_METRICS_PORT`, port]);
  const settings = loadSettings({
    ...Object.fromEntries(env),
    PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
    DATABASE_URL: 'postgres://a/b',
  });
  const metrics = namedServices(settings).filter(({ name }) => name === 'metrics');
  expect(metrics).toEqual(
    Object.values(ports).map((port) => ({ name: 'metrics', host: '127.0.0.1', port: Number(port), isInner: true })),
  );
  for (const spelling of [innerLoopbackAddress, `::ffff:${innerLoopbackAddress}`]) {
    expect(isOutboundAddressAllowed(spelling, everything)).toBe(false);
  }
});

/** Sends all requests at once. */
async function expectRefusals(endpoints: string[]): Promise<void> {
  const refusals = await Promise.all(endpoints.map((each) => findRefusal(`http://${each}`)));
  expect(refusals.map(({ message }) => message)).toEqual(endpoints.map(() => words));
  expect(Math.min(...refusals.map(({ seconds }) => seconds))).toBeGreaterThan(timeoutSeconds / 2 - 0.2);
  for (const canary of services.values()) expect(canary.connections).toBe(0);
}

test('each of them is refused with the same message and delay as a closed port', async () => {
  const ports = [...services.values()].map(({ port }) => port);
  await expectRefusals(ports.flatMap((port) => [`127.0.0.1:${port}`, `${host.driver.hostAddress}:${port}`]));
}, 300_000);

test('one of them is refused in every spelling of its address', async () => {
  await expectRefusals(spellings().map((each) => `${each}:${services.get('temporal')!.port}`));
}, 300_000);

test('a port that is closed, one that is filtered and another program look the same', async () => {
  const closed = await freePort();
  const before = other.connections;
  const ports = [`127.0.0.1:${closed}`, `127.0.0.1:${other.port}`, `[::1]:${other.port}`, `${outside.far}:5432`];
  const refusals = await Promise.all(ports.map((each) => findRefusal(`http://${each}`)));
  expect(refusals.map(({ message }) => message)).toEqual(ports.map(() => words));
  expect(Math.min(...refusals.map(({ seconds }) => seconds))).toBeGreaterThan(timeoutSeconds / 2 - 0.2);
  // Other services are reached, because the operator opened their range. A mount's time may be too short for that on a
  // busy machine.
  await until(async () => {
    if (other.connections > before) return true;
    await findRefusal(`http://127.0.0.1:${other.port}`);
    return false;
  });
}, 300_000);

test('the firewall refuses them to the group of the relays, and to sandboxes, without the relay', async () => {
  const gid = 0x6000_0000 + Number.parseInt(host.copy.id, 16);
  const connects = (address: string, port: number, seconds = 3) => {
    const words = [
      `--regid=${gid}`,
      '--clear-groups',
      'timeout',
      String(seconds),
      'bash',
      '-c',
      `exec 3<>/dev/tcp/${address}/${port}`,
    ];
    const child = spawn('setpriv', words, { stdio: 'ignore' });
    return new Promise<boolean>((done) => child.once('exit', (code) => done(code === 0)));
  };
  const hosts = ['127.0.0.1', '127.9.9.9', '0.0.0.0', '::1', '::ffff:127.0.0.1', host.driver.hostAddress];
  expect(await connects('127.0.0.1', other.port, 40)).toBe(true);
  expect(await connects('::1', other.port, 40)).toBe(true);
  for (const { port } of services.values()) {
    expect(await Promise.all(hosts.map((each) => connects(each, port)))).toEqual(hosts.map(() => false));
  }
  expect(await connects(outside.far, 5432)).toBe(false);
  expect(await connects(host.driver.gateway!, other.port)).toBe(false);
  const ports = [...services.values()].map((each) => each.port);
  const attempts = [host.driver.gateway, host.driver.hostAddress].flatMap((each) =>
    ports.map((port) => `(exec 3<>/dev/tcp/${each}/${port}) 2>/dev/null && echo reached ${port}`),
  );
  expect((await shell(place, spec, `bash -c '${attempts.join('; ')}'; :`)).output).toBe('');
  for (const canary of services.values()) expect(canary.connections).toBe(0);
}, 300_000);
