import { execFileSync } from 'node:child_process';
import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { requireIsolation } from '../../runtime/kubernetes/isolation-probe.ts';
import type { KubernetesDriverOptions, UdpOptions } from '../../runtime/kubernetes/options.ts';
import { agentPort } from '../../runtime/sandbox-agent/agent-client.ts';
import { shell } from '../runtime/local-host.ts';
import { networkOfAllPods } from './support/cluster-place.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { onNode, sharedFolder } from './support/placing.ts';
import type { PodNode } from './support/pod-node.ts';
import { pushBusybox, readyPod, runInPod } from './support/pods.ts';
import { listeningAt, listeningPod, type Run, type Target, tries } from './support/reach.ts';
import { ask, heard, listen, listening, type Sandbox, send } from './support/udp-sandboxes.ts';

/** Tests the network of two nodes, each with kube-proxy and Cilium. They route packets of pods without a tunnel. */
const kubeletPort = 10_250;
const nodes = ['node-1', 'node-2'] as const;

let cluster: KubernetesCluster;
let second: PodNode;
let image: string;
let agentImage: string;
/** An address of this machine outside of the platform's ranges. */
let outside: string;
/** The host of the sandboxes with internet access. */
let host: DriverHost;
const sandboxes: { spec: SandboxSpec; place: SandboxPlace }[] = [];
/** Pods without a policy, one on each node. */
const strangers: V1Pod[] = [];
/** The kubelets of both nodes. Sandboxes must not reach them. */
let kubelets: Record<(typeof nodes)[number], Target>;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  second = await cluster.addNode();
  [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  outside = `203.0.113.${cluster.place.number + 1}`;
  execFileSync('ip', ['address', 'add', `${outside}/32`, 'dev', cluster.place.link]);
  host = await DriverHost.open(cluster, agentImage, options(), sharedFolder(cluster));
  for (const node of nodes) {
    await onNode(cluster, node, async () => {
      const spec = await host.spec(image, { allowInternetAccess: true });
      sandboxes.push({ spec, place: await host.driver.create(spec) });
      strangers.push(await readyPod(cluster, listeningPod(agentImage, 'default', `listener-${node}`)));
    });
  }
  kubelets = {
    'node-1': { host: cluster.place.network.node, port: kubeletPort },
    'node-2': { host: second.place.network.node, port: kubeletPort },
  };
}, 600_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 180_000);

/** The addresses from which the machine connects to pods: its end of the link to each node. */
const machines = () => [cluster.place, second.place].map(({ network }) => `${network.machine}/32`);

const options = (udp?: UdpOptions): Partial<KubernetesDriverOptions> => ({
  podNetwork: networkOfAllPods,
  clientRanges: machines(),
  ...(udp && { udp }),
});

const inPod =
  (pod: V1Pod): Run =>
  async (command) =>
    (await runInPod(cluster, pod, command)).stdout;

const inSandbox =
  (at: number): Run =>
  async (command) => {
    const { place, spec } = sandboxes[at]!;
    return (await shell(place, spec, command.map((part) => `'${part}'`).join(' '), 30)).output;
  };

const toTarget = (at: number): Target => ({ host: sandboxes[at]!.place.address, port: agentPort });

test('pods without a policy reach each other, the API server and both kubelets, but no sandbox on either node', async () => {
  expect(strangers.map((pod) => pod.spec!.nodeName)).toEqual([...nodes]);
  const apiServer = { host: cluster.place.network.firstService, port: 443 };
  for (const [at, pod] of strangers.entries()) {
    const other = listeningAt(strangers[1 - at]!);
    const shut = { here: toTarget(at), there: toTarget(1 - at) };
    expect(await tries(inPod(pod), { open: { other, apiServer, ...kubelets }, shut })).toEqual([]);
  }
}, 120_000);

test('a sandbox reaches no sandbox, pod or kubelet on either node, and not the API server', async () => {
  for (const at of [0, 1]) {
    const pods = { strangerHere: listeningAt(strangers[at]!), strangerThere: listeningAt(strangers[1 - at]!) };
    const services = {
      apiServer: { host: cluster.place.network.firstService, port: 443 },
      apiServerOnNode: { host: cluster.place.network.node, port: 6443 },
    };
    const shut = { other: toTarget(1 - at), ...pods, ...kubelets, ...services };
    expect(await tries(inSandbox(at), { open: {}, shut })).toEqual([]);
  }
}, 120_000);

test('the platform reaches the sandboxes on both nodes, and the isolation probe passes', async () => {
  for (const { place, spec } of sandboxes) expect((await shell(place, spec, 'echo here')).output).toBe('here');
  await requireIsolation(host.options);
}, 120_000);

/** Makes a sandbox with a UDP port on each node. */
async function onBothNodes(of: DriverHost, ports: readonly [number, number]): Promise<[Sandbox, Sandbox]> {
  const on = (at: 0 | 1) => onNode(cluster, nodes[at], () => listening(of, image, { [ports[at]]: 5000 }));
  return [await on(0), await on(1)];
}

const addresses = () => [cluster.place.network.node, second.place.network.node] as const;

test('both nodes forward a UDP port to its sandbox, also after the sandbox has moved to the other node', async () => {
  const range = { first: 31_000, last: 31_009 };
  const udp = { range, service: 'NodePort', trafficPolicy: 'Cluster' } as const;
  const of = await DriverHost.open(cluster, agentImage, options(udp), sharedFolder(cluster));
  const [one, two] = await onBothNodes(of, [31_000, 31_001]);
  for (const address of addresses()) {
    const from = outside;
    expect((await ask(31_000, { address, from })).split(' ')[0]).toBe(one.spec.sandboxId);
    expect((await ask(31_001, { address, from })).split(' ')[0]).toBe(two.spec.sandboxId);
  }
  await of.driver.pause(two.spec.sandboxId);
  const { spec } = two;
  const place = await onNode(cluster, 'node-1', () => of.driver.resume({ ...spec, run: 2 }));
  await listen({ spec, place });
  for (const address of addresses()) {
    expect((await ask(31_001, { address, from: outside })).split(' ')[0]).toBe(spec.sandboxId);
  }
  await of.close();
}, 240_000);

test('with the policy Local only the sandbox’s own node forwards a UDP port, and the sandbox sees the sender', async () => {
  const range = { first: 31_010, last: 31_019 };
  const udp = { range, service: 'NodePort', trafficPolicy: 'Local' } as const;
  const of = await DriverHost.open(cluster, agentImage, options(udp), sharedFolder(cluster));
  const both = await onBothNodes(of, [31_010, 31_011]);
  for (const [at, sandbox] of both.entries()) {
    const port = 31_010 + at;
    const [own, other] = at === 0 ? addresses() : [...addresses()].reverse();
    expect(await ask(port, { address: own!, from: outside })).toBe(`${sandbox.spec.sandboxId} ${outside}`);
    for (let time = 0; time < 5; time += 1) {
      (await send(port, { address: other!, from: outside, text: 'astray' })).close();
    }
    // When this datagram has arrived, the earlier ones would have arrived as well.
    await ask(port, { address: own!, from: outside, text: 'after' });
    const lines = await heard(sandbox);
    expect(lines).toContain('5000 after');
    expect(lines).not.toContain('5000 astray');
  }
  await of.close();
}, 240_000);
