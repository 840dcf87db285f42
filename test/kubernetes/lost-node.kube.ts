import fs from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { DriverError, type SandboxPlace, type SandboxSpec } from '../../runtime/driver.ts';
import type { SandboxEnd } from '../../runtime/kubernetes/end-reports.ts';
import { labels } from '../../runtime/kubernetes/names.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { nodeThings, podsWithProcesses } from './faults/cluster-inventory.ts';
import { networkOfAllPods } from './support/cluster-place.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { cutNoMore, cutOff } from './support/node-link.ts';
import { cordon, kubectl, onNode, sharedFolder } from './support/placing.ts';
import type { PodNode } from './support/pod-node.ts';
import { pushBusybox } from './support/pods.ts';

/** Tests the loss of a node with sandboxes. Their disks are on storage that the other node can mount too. */
const lossMs = 180_000;
const away = { code: 'host_unavailable', message: 'The machine of this sandbox is away; try again when it is back' };

let cluster: KubernetesCluster;
let second: PodNode;
let image: string;
let agentImage: string;
let host: DriverHost;
const ends: SandboxEnd[] = [];
/** The traces of pods on the second node before the first sandbox. */
let before: Set<string>;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ nodeSilenceSeconds: 30 });
  second = await cluster.addNode();
  image = await pushBusybox(cluster);
  agentImage = await pushAgentImage(cluster.registry);
  const options = { podNetwork: networkOfAllPods, podEndTimeoutSeconds: 10 };
  host = await DriverHost.open(cluster, agentImage, options, sharedFolder(cluster));
  host.driver.onEnd((end) => ends.push(end));
  before = new Set(await nodeThings(second));
}, 300_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 180_000);

interface Sandbox {
  spec: SandboxSpec;
  place: SandboxPlace;
  /** The number of bytes that the sandbox's process has written, read from the storage without a node. */
  written: () => number;
}

/** A sandbox on the second node that writes to its disk until it ends. */
async function writing(): Promise<Sandbox> {
  const spec = await host.spec(image);
  const place = await onNode(cluster, 'node-2', () => host.driver.create(spec));
  const loop = 'while :; do echo tick >>/root/ticks; sleep 0.2; done';
  await shell(place, spec, `echo ${spec.sandboxId} >/root/kept`);
  await shell(place, spec, `/bin/busybox setsid sh -c '${loop}' </dev/null >/dev/null 2>&1 &`);
  const { namespace, core } = host;
  const claim = await core.readNamespacedPersistentVolumeClaim({ name: spec.sandboxId, namespace });
  const file = path.join(cluster.place.file('shared'), claim.spec!.volumeName!, 'rootfs/root/ticks');
  const written = () => (fs.existsSync(file) ? fs.statSync(file).size : 0);
  await until(() => written() > 0);
  return { spec, place, written };
}

const findEnds = (sandboxId: SandboxId) => ends.filter((end) => end.sandboxId === sandboxId);

/** Waits until the end of a sandbox is reported with the reason `node_lost`. */
async function whenLost({ spec }: Sandbox): Promise<void> {
  await until(() => findEnds(spec.sandboxId).length > 0, lossMs);
  expect(findEnds(spec.sandboxId)).toMatchObject([{ reason: 'node_lost', run: 1 }]);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
}

/** The nodes of a sandbox's pods, with `ending` for a pod that is being deleted. */
async function listPods({ spec }: Pick<Sandbox, 'spec'>): Promise<string[]> {
  const labelSelector = `${labels.sandbox}=${spec.sandboxId}`;
  const { items } = await host.core.listNamespacedPod({ namespace: host.namespace, labelSelector });
  return items.map(({ metadata, spec: pod }) => `${pod!.nodeName}${metadata!.deletionTimestamp ? ' ending' : ''}`);
}

/** Expects that the sandbox cannot be started while its pod on the lost node exists. */
async function isRefused({ spec }: Sandbox): Promise<void> {
  for (const start of ['resume', 'restart'] as const) {
    await expect(host.driver[start]({ ...spec, run: 2 })).rejects.toMatchObject(away);
  }
  await expect(host.driver.pause(spec.sandboxId)).rejects.toMatchObject(away);
  expect(await listPods({ spec })).toEqual(['node-2 ending']);
}

/** Resumes a sandbox as soon as the cluster has given up its pod on the lost node. */
async function resumed({ spec }: Sandbox): Promise<void> {
  let place: SandboxPlace | undefined;
  await until(
    async () => {
      try {
        place = await host.driver.resume({ ...spec, run: 2 });
        return true;
      } catch (error) {
        if (!(error instanceof DriverError)) throw error;
        expect(error).toMatchObject(away);
        return false;
      }
    },
    lossMs,
    500,
  );
  expect((await shell(place!, spec, 'cat /root/kept')).output).toBe(spec.sandboxId);
  expect(await listPods({ spec })).toEqual(['node-1']);
}

/** Waits until the second node has no traces of a sandbox. */
async function nothingIsLeft(): Promise<void> {
  let left: string[] = [];
  const isClean = async () => {
    left = (await nodeThings(second)).filter((line) => !before.has(line));
    return left.length === 0;
  };
  // The kubelet removes ended containers once a minute.
  await until(isClean, lossMs, 500).catch(() => {});
  expect(left).toEqual([]);
}

test('after a node becomes unreachable, its sandbox has no second copy while the first may write, and resumes on any node when the node is back', async () => {
  const sandbox = await writing();
  const { sandboxId } = sandbox.spec;
  await second.node.program('kubelet').kill('SIGKILL');
  await cutOff(second.node);
  await whenLost(sandbox);
  await isRefused(sandbox);
  const size = sandbox.written();
  // The sandbox keeps running and writing on the unreachable node.
  await until(() => sandbox.written() > size);
  expect(podsWithProcesses(second)).toHaveLength(1);

  await cordon(cluster, 'node-2');
  await cutNoMore(second.node);
  await second.startKubelet();
  await resumed(sandbox);
  expect(podsWithProcesses(second)).toEqual([]);
  // The first copy ended before, and the process that writes was not started in the second copy.
  const last = sandbox.written();
  await nothingIsLeft();
  expect(sandbox.written()).toBe(last);
  expect(findEnds(sandboxId)).toHaveLength(1);
  await host.driver.remove(sandboxId);
  await cordon(cluster, 'node-2', false);
}, 600_000);

test('a create takes no warm pod on a node that became unreachable, and the other node gets new warm pods', async () => {
  const options = { podNetwork: networkOfAllPods, podEndTimeoutSeconds: 10 };
  const warmHost = await DriverHost.open(cluster, agentImage, options, sharedFolder(cluster));
  await warmHost.driver.close();
  await warmHost.addVolumes(10);
  const warm = { size: { least: 2, most: 2 }, base: { image, cpuCount: 1, memoryMb: 256, storageGb: 1 } };
  await onNode(cluster, 'node-2', async () => {
    await warmHost.start({ ...options, warm });
    await until(() => warmHost.driver.poolReady === 2, 120_000);
  });
  const listNodes = async (selector: string) => {
    const { items } = await warmHost.core.listNamespacedPod({ namespace: warmHost.namespace, labelSelector: selector });
    return items.map(({ spec }) => spec!.nodeName);
  };
  expect(await listNodes(labels.warm)).toEqual(['node-2', 'node-2']);

  await cordon(cluster, 'node-2');
  await second.node.program('kubelet').kill('SIGKILL');
  await cutOff(second.node);
  const cold = await warmHost.spec(image);
  const place = await warmHost.driver.create(cold);
  expect(place.from).toBe('cold');
  expect((await shell(place, cold, 'echo here')).output).toBe('here');

  await until(async () => {
    const nodes = await listNodes(labels.warm);
    return warmHost.driver.poolReady === 2 && nodes.filter((node) => node === 'node-1').length === 2;
  }, lossMs);
  const fromPool = await warmHost.spec(image);
  const placeFromPool = await warmHost.driver.create(fromPool);
  expect(placeFromPool.from).toBe('pool');
  expect((await shell(placeFromPool, fromPool, 'echo here')).output).toBe('here');

  await cutNoMore(second.node);
  await second.startKubelet();
  await until(async () => {
    await warmHost.driver.reconcile([cold.sandboxId, fromPool.sandboxId]);
    return (await listNodes(labels.warm)).every((node) => node === 'node-1');
  }, lossMs);
  await cordon(cluster, 'node-2', false);
  await warmHost.close();
  await nothingIsLeft();
}, 600_000);

test('after a power loss and the out-of-service taint, the sandbox resumes on the other node; its node comes back without it', async () => {
  const sandbox = await writing();
  const { sandboxId } = sandbox.spec;
  await second.powerOff();
  await whenLost(sandbox);
  await isRefused(sandbox);
  const taint = 'node.kubernetes.io/out-of-service';
  await kubectl(cluster, ['taint', 'nodes', 'node-2', `${taint}=nodeshutdown:NoExecute`]);
  await resumed(sandbox);

  await cluster.powerOn(second);
  await kubectl(cluster, ['taint', 'nodes', 'node-2', `${taint}-`]);
  await nothingIsLeft();
  expect(await host.driver.inspect(sandboxId)).toMatchObject({ state: 'running', run: 2 });
  expect(await listPods(sandbox)).toEqual(['node-1']);
  expect(findEnds(sandboxId)).toHaveLength(1);
  await host.driver.remove(sandboxId);
}, 600_000);

test('after the Node object of a lost node is deleted, its sandbox resumes on the other node', async () => {
  const [sandbox, removed] = [await writing(), await writing()];
  await second.powerOff();
  await kubectl(cluster, ['delete', 'node', 'node-2']);
  await Promise.all([whenLost(sandbox), whenLost(removed)]);
  await resumed(sandbox);
  await host.driver.remove(removed.spec.sandboxId);
  expect(await host.objects()).toEqual({ pods: [sandbox.spec.sandboxId], disks: [sandbox.spec.sandboxId] });
  await host.driver.remove(sandbox.spec.sandboxId);

  // The machine joins the cluster again under the same name.
  await cluster.powerOn(second);
  await nothingIsLeft();
  const again = await writing();
  expect(await listPods(again)).toEqual(['node-2']);
  await host.driver.remove(again.spec.sandboxId);
}, 600_000);
