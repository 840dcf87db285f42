import { execFileSync } from 'node:child_process';
import dgram from 'node:dgram';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { probeIsolation, requireIsolation } from '../../runtime/kubernetes/isolation-probe.ts';
import { inspectionPod } from '../../runtime/kubernetes/manifests.ts';
import { agentPort } from '../../runtime/sandbox-agent/agent-client.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox, readyPod, runInPod } from './support/pods.ts';
import { listeningAt, listeningPod, listenWords, type Run, type Target, tries, word } from './support/reach.ts';

const metadata = '169.254.169.254';
const listener = path.resolve(import.meta.dirname, '../../runtime/kubernetes/in-pod/isolation-listener.cjs');

let cluster: KubernetesCluster;
let host: DriverHost;
let agentImage: string;
/** A sandbox with internet access. */
let connected: Sandbox;
/** A sandbox without internet access. */
let closed: Sandbox;
/** A pod in a namespace that does not belong to the platform. */
let stranger: V1Pod;
/** A pod in the platform's namespace. */
let platformPod: V1Pod;
let outside: Record<'public' | 'resolver', Target>;
let never: Record<string, Target>;
const servers: (net.Server | dgram.Socket)[] = [];

interface Sandbox {
  spec: SandboxSpec;
  place: SandboxPlace;
}

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  const { machine, node, firstService } = cluster.place.network;
  const image = await pushBusybox(cluster);
  agentImage = await pushAgentImage(cluster.registry);
  // An address for documentation, which no policy closes. It exists only on the machine's end of the link.
  const onInternet = `203.0.113.${cluster.place.number + 1}`;
  execFileSync('ip', ['address', 'add', `${onInternet}/32`, 'dev', cluster.place.link]);
  await cluster.node.run('ip', ['address', 'add', `${metadata}/32`, 'dev', 'lo']);
  cluster.node.start('listener', process.execPath, [listener, '80', word]);
  const platform = await answerOn(machine);
  outside = {
    public: { host: onInternet, port: await answerOn(onInternet), word },
    resolver: await resolverOn(machine),
  };
  const options = { clientRanges: [`${machine}/32`], clientNamespaces: ['platform'], dns: [machine] };
  host = await DriverHost.open(cluster, agentImage, options);
  await requireIsolation({ ...host.options, ...options });
  await cluster.core.createNamespace({ body: { metadata: { name: 'platform' } } });
  await until(() =>
    cluster.core.readNamespacedServiceAccount({ name: 'default', namespace: 'platform' }).then(Boolean, () => false),
  );
  stranger = await readyPod(cluster, listeningPod(agentImage, 'default'));
  platformPod = await readyPod(cluster, listeningPod(agentImage, 'platform'));
  [connected, closed] = (await Promise.all([true, false].map((each) => sandbox(image, each)))) as [Sandbox, Sandbox];
  const agent = { port: agentPort };
  never = {
    apiServer: { host: firstService, port: 443 },
    apiServerOnNode: { host: node, port: 6443 },
    kubelet: { host: node, port: 10_250 },
    node: { host: node, port: 80, word },
    metadata: { host: metadata, port: 80, word },
    platform: { host: machine, port: platform, word },
    stranger: listeningAt(stranger),
    connected: { host: connected.place.address, ...agent },
    closed: { host: closed.place.address, ...agent },
  };
}, 600_000);
afterAll(async () => {
  await host?.close();
  for (const server of servers) server.close();
  await cluster?.stop();
}, 120_000);

test('a pod without a policy reaches all addresses that are closed to sandboxes, except the sandboxes themselves', async () => {
  const { connected: one, closed: other, ...rest } = never;
  expect(
    await tries(inPod(stranger), { open: { ...rest, public: outside.public }, shut: { one: one!, other: other! } }),
  ).toEqual([]);
}, 60_000);

test('a sandbox with internet access reaches public addresses and its DNS server, but not the cluster, its node, the platform or other sandboxes', async () => {
  const { connected: itself, ...others } = never;
  expect(itself).toBeDefined();
  expect(await tries(inSandbox(connected), { open: { public: outside.public }, shut: others })).toEqual([]);
  const { host: server } = outside.resolver;
  const lookUp = `const r = new (require('dns').Resolver)({ timeout: 2000, tries: 3 }); r.setServers(['${server}']);
    r.resolve4('any.example', (error, found) => console.log(error ? error.code : found.join()))`;
  expect((await shell(connected.place, connected.spec, `/.platform/bin/node -e "${lookUp}"`)).output).toBe(
    '203.0.113.99',
  );
  const { output } = await shell(closed.place, closed.spec, `/.platform/bin/node -e "${lookUp}"`);
  expect(output).toMatch(/^(ETIMEOUT|ECONNREFUSED)$/);
}, 60_000);

test('a sandbox without internet access reaches nothing', async () => {
  const { closed: itself, ...others } = never;
  expect(itself).toBeDefined();
  expect(await tries(inSandbox(closed), { open: {}, shut: { ...others, public: outside.public } })).toEqual([]);
}, 60_000);

test('the platform reaches sandboxes with and without internet access, from its machines and from its pods', async () => {
  const { connected: one, closed: other } = never;
  expect(await tries(inPod(platformPod), { open: { one: one!, other: other! }, shut: {} })).toEqual([]);
  for (const { place, spec } of [connected, closed]) {
    expect((await shell(place, spec, 'echo here')).output).toBe('here');
  }
});

test('a pod that inspects an image cannot open connections, and no connection to it succeeds', async () => {
  const inspection = inspectionPod('inspection-of-the-test', agentImage, host.options);
  inspection.spec!.containers[0]!.command = listenWords;
  const pod = await readyPod(cluster, inspection);
  const itself = { ...listeningAt(pod), host: '127.0.0.1' };
  expect(await tries(inPod(pod), { open: { itself }, shut: { ...never, public: outside.public } })).toEqual([]);
  const fromElsewhere = { inspection: listeningAt(pod) };
  expect(await tries(inPod(stranger), { open: {}, shut: fromElsewhere })).toEqual([]);
  expect(await tries(inPod(platformPod), { open: {}, shut: fromElsewhere })).toEqual([]);
}, 120_000);

test('a policy applies to a pod from the start of its first process', async () => {
  for (let time = 0; time < 3; time += 1)
    expect(await probeIsolation(host.options)).toEqual({ open: [], lateMs: null });
}, 180_000);

const inSandbox =
  ({ place, spec }: Sandbox): Run =>
  async (command) =>
    (await shell(place, spec, command.map((part) => `'${part}'`).join(' '), 30)).output;

const inPod =
  (pod: V1Pod): Run =>
  async (command) =>
    (await runInPod(cluster, pod, command)).stdout;

async function sandbox(image: string, allowInternetAccess: boolean): Promise<Sandbox> {
  const spec = await host.spec(image, { allowInternetAccess });
  return { spec, place: await host.driver.create(spec) };
}

/** @returns the port */
async function answerOn(address: string): Promise<number> {
  const server = net.createServer((socket) => socket.on('error', () => socket.destroy()).end(word)).listen(0, address);
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as net.AddressInfo).port;
}

/** Starts a DNS server that answers each query with the same address. */
async function resolverOn(address: string): Promise<Target> {
  const server = dgram.createSocket('udp4');
  servers.push(server);
  server.on('message', (query, from) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const header = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 99]);
    server.send(Buffer.concat([header, question, record]), from.port, from.address);
  });
  server.bind(53, address);
  await once(server, 'listening');
  return { host: address, port: 53 };
}
