import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  CoreV1Api,
  type KubeConfig,
  loadAllYaml,
  NetworkingV1Api,
  PatchStrategy,
  RbacAuthorizationV1Api,
  setHeaderOptions,
  type V1PolicyRule,
  type V1Service,
} from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { DriverError } from '../../runtime/driver.ts';
import { openKubernetesDriver } from '../../runtime/kubernetes/driver.ts';
import { labels } from '../../runtime/kubernetes/names.ts';
import type { KubernetesDriverOptions, UdpOptions } from '../../runtime/kubernetes/options.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox } from './support/pods.ts';
import {
  ask as askFrom,
  type Datagram,
  heard,
  listen,
  listening as makeListening,
  openSocket,
  type Sandbox,
  send,
} from './support/udp-sandboxes.ts';

/**
 * Tests UDP ports of sandboxes from outside of the cluster. kube-proxy forwards the ports and Cilium enforces the
 * policies. The driver has only the rights that the chart gives to the host worker.
 */
const user = 'host-worker';
const udp: UdpOptions = { range: { first: 31_000, last: 31_099 }, service: 'NodePort', trafficPolicy: 'Local' };
const chart = path.resolve(import.meta.dirname, '../../ops/helm/sandbox-platform');
const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

let cluster: KubernetesCluster;
let image: string;
let agentImage: string;
let restricted: KubeConfig;
let host: DriverHost;
/** The address of the node. */
let node: string;
/** The address of this machine in the platform's ranges. */
let machine: string;
/** An address of this machine outside of the platform's ranges. */
let outside: string;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  ({ node, machine } = cluster.place.network);
  // An address for documentation. It exists only on this machine's end of the link.
  outside = `203.0.113.${cluster.place.number + 1}`;
  execFileSync('ip', ['address', 'add', `${outside}/32`, 'dev', cluster.place.link]);
  [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  restricted = await cluster.createConfig({ name: user });
  await giveRights(await rightsOfTheChart());
  host = await DriverHost.open(cluster, agentImage, options());
}, 600_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 120_000);

const options = (given: Partial<UdpOptions> = {}): Partial<KubernetesDriverOptions> => ({
  config: restricted,
  clientRanges: [`${machine}/32`],
  udp: { ...udp, ...given },
});

test('sandboxes receive and answer datagrams from outside and see the sender; two sandboxes can use the same port inside; other ports are closed', async () => {
  const [one, two] = (await Promise.all([
    listening(host, { 31000: 5000, 31001: 5000 }),
    listening(host, { 31002: 5000 }),
  ])) as [Sandbox, Sandbox];
  expect(one.spec.allowInternetAccess).toBe(false);
  expect(await ask(31_000)).toBe(`${one.spec.sandboxId} ${outside}`);
  expect(await ask(31_001)).toBe(`${one.spec.sandboxId} ${outside}`);
  expect(await ask(31_002)).toBe(`${two.spec.sandboxId} ${outside}`);

  const inner = { address: one.place.address };
  for (let time = 0; time < 5; time += 1) (await send(5001, { ...inner, from: outside, text: 'closed' })).close();
  expect(await ask(5000, { ...inner, text: 'open' })).toContain(one.spec.sandboxId);
  expect(await heard(one)).not.toContain('5001 closed');
  // A process listens at this port, and the platform can reach it.
  expect(await ask(5001, { ...inner, from: machine })).toContain(one.spec.sandboxId);
  await removeAll(host, one, two);
  expect(await services(host)).toEqual([]);
}, 180_000);

test('ports can change while the sandbox runs, and a removed port is also closed to existing flows', async () => {
  const one = await listening(host, {});
  const { sandboxId } = one.spec;
  expect(await services(host)).toEqual([]);
  await host.driver.exposeUdp(sandboxId, [{ hostPort: 31_010, servicePort: 5000 }]);
  const flow = await openSocket(outside);
  let answers = 0;
  flow.on('message', () => {
    answers += 1;
  });
  expect(await ask(31_010)).toContain(sandboxId);
  await until(async () => {
    flow.send('under way', 31_010, node);
    return answers > 0;
  });

  await host.driver.exposeUdp(sandboxId, [{ hostPort: 31_011, servicePort: 5001 }]);
  expect(await ask(31_011)).toBe(`${sandboxId} ${outside}`);
  expect((await services(host)).map(listPorts)).toEqual([[{ port: 31_011, nodePort: 31_011, targetPort: 5001 }]]);
  let round = 0;
  const isClosed = async () => {
    round += 1;
    for (let time = 0; time < 3; time += 1) flow.send(`late-${round}`, 31_010, node);
    // When this datagram has arrived, the earlier ones would have arrived as well.
    await ask(5000, { address: one.place.address, from: machine, text: `marker-${round}` });
    const lines = await heard(one);
    expect(lines).toContain(`5000 marker-${round}`);
    return !lines.includes(`5000 late-${round}`);
  };
  await until(isClosed);
  expect(await isClosed()).toBe(true);
  flow.close();

  await host.driver.exposeUdp(sandboxId, []);
  expect(await services(host)).toEqual([]);
  expect(await policies(host)).toEqual([sandboxId]);
  await removeAll(host, one);
}, 180_000);

test('a port still works after a pause and a resume; a stop and a removal leave no Service', async () => {
  const one = await listening(host, { 31020: 5000 });
  const { sandboxId } = one.spec;
  expect(await ask(31_020)).toContain(sandboxId);
  expect(await host.driver.pause(sandboxId)).toEqual({ kept: 'disk' });
  expect((await services(host)).map(listPorts)).toEqual([[{ port: 31_020, nodePort: 31_020, targetPort: 5000 }]]);
  await listen({ spec: one.spec, place: await host.driver.resume({ ...one.spec, run: 2 }) });
  expect(await ask(31_020)).toBe(`${sandboxId} ${outside}`);

  await host.driver.stop(sandboxId);
  expect(await services(host)).toEqual([]);
  expect(await policies(host)).toEqual([sandboxId]);
  await listen({ spec: one.spec, place: await host.driver.restart({ ...one.spec, run: 3 }) });
  expect(await ask(31_020)).toBe(`${sandboxId} ${outside}`);
  await host.driver.remove(sandboxId);
  expect(await services(host)).toEqual([]);
  expect(await policies(host)).toEqual([]);
}, 240_000);

test('a port that another Service uses is refused with its number, and the sandbox keeps its other ports', async () => {
  const one = await listening(host, { 31031: 5000 });
  const { sandboxId } = one.spec;
  const ports = [{ protocol: 'UDP', port: 53, nodePort: 31_030 }];
  const other = { metadata: { name: 'other' }, spec: { type: 'NodePort', ports } };
  await cluster.core.createNamespacedService({ namespace: 'default', body: other });
  const both = [31_031, 31_030].map((hostPort) => ({ hostPort, servicePort: 5000 }));
  const refused = await host.driver.exposeUdp(sandboxId, both).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(DriverError);
  const inUse = 'UDP port 31030 of the cluster is in use by something else; try again';
  expect(refused).toMatchObject({ code: 'no_capacity', message: inUse, retryable: false });
  expect((await services(host)).map(listPorts)).toEqual([[{ port: 31_031, nodePort: 31_031, targetPort: 5000 }]]);
  expect(await ask(31_031)).toContain(sandboxId);
  const late = await host.spec(image, { udpPorts: both.slice(1) });
  await expect(host.driver.create(late)).rejects.toMatchObject({ code: 'no_capacity', message: inUse });
  expect((await host.objects()).pods).toEqual([sandboxId]);
  await host.driver.remove(late.sandboxId);

  await cluster.core.deleteNamespacedService({ namespace: 'default', name: 'other' });
  await host.driver.exposeUdp(sandboxId, both);
  expect(await ask(31_030)).toContain(sandboxId);
  await removeAll(host, one);
}, 180_000);

test('a deleted Service is made again, and a Service without a sandbox is removed when the host starts', async () => {
  const one = await listening(host, { 31040: 5000 });
  const { sandboxId } = one.spec;
  const { namespace } = host;
  const linked = [{ sandboxId, allowInternetAccess: false }];
  await cluster.core.deleteNamespacedService({ namespace, name: sandboxId });
  await until(async () => (await host.driver.repairLinks(linked)).length > 0);
  expect((await services(host)).map(listPorts)).toEqual([[{ port: 31_040, nodePort: 31_040, targetPort: 5000 }]]);
  expect(await ask(31_040)).toContain(sandboxId);

  await host.driver.close();
  const [{ metadata }] = (await services(host)) as [V1Service];
  const labels = { ...metadata!.labels, 'sandbox-platform/sandbox': 'sbx-unknown' };
  const body = { metadata: { name: 'sbx-unknown', labels }, spec: { ports: [{ protocol: 'UDP', port: 1 }] } };
  await cluster.core.createNamespacedService({ namespace, body });
  await host.start(options());
  expect(await host.driver.reconcile([sandboxId])).toEqual(['sbx-unknown']);
  expect((await services(host)).map((service) => service.metadata!.name)).toEqual([sandboxId]);
  await host.driver.exposeUdp(sandboxId, []);
  expect(await services(host)).toEqual([]);
  await removeAll(host, one);
}, 180_000);

test('a range outside of the cluster’s node ports is refused when the host starts', async () => {
  for (const range of [
    { first: 20_000, last: 20_127 },
    { first: 32_700, last: 32_800 },
  ]) {
    const opened = openKubernetesDriver({ ...host.options, ...options({ range }) });
    const text = `the UDP ports ${range.first}-${range.last} are not all node ports of the cluster, 30000-32767`;
    await expect(opened).rejects.toThrow(text);
  }
  expect(await services(host)).toEqual([]);
}, 60_000);

test('a host without UDP ports refuses them', async () => {
  const without = await DriverHost.open(cluster, agentImage, { ...options(), udp: undefined });
  expect(without.driver.udpRange).toBeNull();
  const spec = await without.spec(image, { udpPorts: [{ hostPort: 31_050, servicePort: 5000 }] });
  const refusal = { code: 'not_on_a_cluster', message: 'The cluster of this sandbox has no UDP ports for sandboxes' };
  await expect(without.driver.create(spec)).rejects.toMatchObject(refusal);
  await expect(without.driver.exposeUdp(spec.sandboxId, spec.udpPorts)).rejects.toMatchObject(refusal);
  expect(await without.objects()).toEqual({ pods: [], disks: [] });
  await without.close();
}, 60_000);

test('ports of a load balancer are reachable at its address; a change waits until its controller releases a deleted Service', async () => {
  const balancer = `203.0.113.${cluster.place.number + 101}`;
  const annotations = { 'example.com/shared-address': 'sandboxes' };
  const balanced = await DriverHost.open(
    cluster,
    agentImage,
    options({
      range: { first: 5300, last: 5309 },
      service: 'LoadBalancer',
      trafficPolicy: 'Cluster',
      loadBalancerClass: 'example.com/of-the-test',
      annotations,
    }),
  );
  const { namespace, core } = balanced;
  const one = await listening(balanced, { 5300: 5000 });
  const { sandboxId: name } = one.spec;
  const [service] = (await services(balanced)) as [V1Service];
  expect(service.metadata!.annotations).toMatchObject(annotations);
  expect(service.spec).toMatchObject({
    type: 'LoadBalancer',
    loadBalancerClass: 'example.com/of-the-test',
    externalTrafficPolicy: 'Cluster',
  });
  // The test itself acts as the load balancer.
  execFileSync('ip', ['route', 'add', `${balancer}/32`, 'via', node, 'dev', cluster.place.link]);
  const status = { loadBalancer: { ingress: [{ ip: balancer }] } };
  await core.patchNamespacedServiceStatus({ namespace, name, body: { status } }, merge);
  expect(await ask(5300, { address: balancer })).toContain(name);

  const finalizers = (list: string[] | null) => ({ namespace, name, body: { metadata: { finalizers: list } } });
  await core.patchNamespacedService(finalizers(['example.com/address-is-in-use']), merge);
  await balanced.driver.exposeUdp(name, []);
  const again = balanced.driver.exposeUdp(name, [{ hostPort: 5301, servicePort: 5001 }]);
  await until(async () => {
    const { metadata, spec } = await core.readNamespacedService({ namespace, name });
    return metadata!.deletionTimestamp !== undefined && spec!.ports!.some(({ port }) => port === 5301);
  });
  await core.patchNamespacedService(finalizers(null), merge);
  await again;
  const found = await core.readNamespacedService({ namespace, name });
  expect(found.metadata!.deletionTimestamp).toBeUndefined();
  expect(found.spec!.ports!.map(({ port }) => port)).toEqual([5301]);
  await removeAll(balanced, one);
  expect(await services(balanced)).toEqual([]);
  await balanced.close();
}, 180_000);

/** Makes a sandbox that answers on the ports 5000 and 5001. @param ports the inner port by the cluster's port */
const listening = (of: DriverHost, ports: Record<number, number>) => makeListening(of, image, ports);

/** Sends a question to a port of the node, by default from an address outside of the platform's ranges. */
const ask = (port: number, question: Partial<Datagram> = {}) =>
  askFrom(port, { address: node, from: outside, ...question });

async function services({ namespace }: DriverHost): Promise<V1Service[]> {
  return (await cluster.core.listNamespacedService({ namespace })).items;
}

/** The names of sandboxes' policies, without the one that closes all pods of the host. */
async function policies({ namespace }: DriverHost): Promise<string[]> {
  const networking = cluster.config.makeApiClient(NetworkingV1Api);
  const found = await networking.listNamespacedNetworkPolicy({ namespace, labelSelector: labels.sandbox });
  return found.items.map(({ metadata }) => metadata!.name!);
}

const listPorts = ({ spec }: V1Service) =>
  spec!.ports!.map(({ port, nodePort, targetPort }) => ({ port, nodePort, targetPort }));

async function removeAll(of: DriverHost, ...sandboxes: Sandbox[]): Promise<void> {
  await Promise.all(sandboxes.map(({ spec }) => of.driver.remove(spec.sandboxId)));
}

/** The rules of the host worker's roles in the chart. */
async function rightsOfTheChart(): Promise<V1PolicyRule[]> {
  const values = {
    image: { repository: 'registry.test/sandbox-platform' },
    url: 'https://api.example.com',
    baseDomain: 'sandbox.example.com',
    secret: 'platform',
    gateway: { tlsSecret: 'gateway-tls' },
    temporal: { address: 'temporal.example.com:7233' },
    sandboxes: {
      enabled: true,
      hostId: 'cluster-one',
      agentImage: 'registry.test/agent:1',
      podNetwork: '10.244.0.0/16',
      udp: { ports: '31000-31099', publicAddress: node },
    },
  };
  const file = path.join(cluster.place.folder, 'values.json');
  fs.writeFileSync(file, JSON.stringify(values));
  const words = ['template', 'platform', chart, '--values', file, '--show-only', 'templates/sandboxes.yaml'];
  const { stdout } = await promisify(execFile)(kubernetesPrograms().helm, words);
  const objects = loadAllYaml(stdout) as ({ kind: string; rules: V1PolicyRule[] } | null)[];
  const rules = objects.flatMap((object) => (/^(Cluster)?Role$/.test(object?.kind ?? '') ? object!.rules : []));
  expect(rules.flatMap(({ resources }) => resources)).toEqual(expect.arrayContaining(['services', 'nodes']));
  return rules;
}

/** Gives a user these rights in all namespaces, because each host of this file has its own namespace. */
async function giveRights(rules: V1PolicyRule[]): Promise<void> {
  const rbac = cluster.config.makeApiClient(RbacAuthorizationV1Api);
  const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: user };
  const subject = { apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user };
  await rbac.createClusterRole({ body: { metadata: { name: user }, rules } });
  await rbac.createClusterRoleBinding({ body: { metadata: { name: user }, roleRef: role, subjects: [subject] } });
  const core = restricted.makeApiClient(CoreV1Api);
  await until(() => core.listNode().then(Boolean, () => false));
}
