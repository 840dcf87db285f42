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

/** A node that goes away with sandboxes on it, whose disks are on storage that the other node has, too. */
const lossMs = 180_000;
const away = { code: 'host_unavailable', message: 'The machine of this sandbox is away; try again when it is back' };

let cluster: KubernetesCluster;
let second: PodNode;
let image: string;
let host: DriverHost;
const ends: SandboxEnd[] = [];
/** What the second node has without sandboxes. */
let before: Set<string>;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ nodeSilenceSeconds: 30 });
  second = await cluster.addNode();
  image = await pushBusybox(cluster);
  const agentImage = await pushAgentImage(cluster.registry);
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
  /** Bytes that its writer has written, read from the storage and not through a node. */
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

const endsOf = (sandboxId: SandboxId) => ends.filter((end) => end.sandboxId === sandboxId);

/** Waits for the report of its end, as that of a lost node. */
async function whenLost({ spec }: Sandbox): Promise<void> {
  await until(() => endsOf(spec.sandboxId).length > 0, lossMs);
  expect(endsOf(spec.sandboxId)).toMatchObject([{ reason: 'node_lost', run: 1 }]);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
}

/** Where its pods are; with `ending`, one that is to go. */
async function podsOf({ spec }: Pick<Sandbox, 'spec'>): Promise<string[]> {
  const labelSelector = `${labels.sandbox}=${spec.sandboxId}`;
  const { items } = await host.core.listNamespacedPod({ namespace: host.namespace, labelSelector });
  return items.map(({ metadata, spec: pod }) => `${pod!.nodeName}${metadata!.deletionTimestamp ? ' ending' : ''}`);
}

/** Nothing brings it up while the pod of the lost node is there. */
async function isRefused({ spec }: Sandbox): Promise<void> {
  for (const start of ['resume', 'restart'] as const) {
    await expect(host.driver[start]({ ...spec, run: 2 })).rejects.toMatchObject(away);
  }
  await expect(host.driver.pause(spec.sandboxId)).rejects.toMatchObject(away);
  expect(await podsOf({ spec })).toEqual(['node-2 ending']);
}

/** Resumes it as soon as the cluster has given up the pod of the lost node, while that node takes no pods. */
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
  expect(await podsOf({ spec })).toEqual(['node-1']);
}

/** Waits until the second node has nothing of a sandbox. */
async function nothingIsLeft(): Promise<void> {
  let left: string[] = [];
  const isClean = async () => {
    left = (await nodeThings(second)).filter((line) => !before.has(line));
    return left.length === 0;
  };
  // The kubelet collects containers that have ended once a minute.
  await until(isClean, lossMs, 500).catch(() => {});
  expect(left).toEqual([]);
}

test('a node that is silent: the end of its sandbox is reported with the reason, and no second copy starts while the first may write; when the node is back the sandbox resumes, on any node', async () => {
  const sandbox = await writing();
  const { sandboxId } = sandbox.spec;
  await second.node.program('kubelet').kill('SIGKILL');
  await cutOff(second.node);
  await whenLost(sandbox);
  await isRefused(sandbox);
  const size = sandbox.written();
  // It runs on where nobody reaches it.
  await until(() => sandbox.written() > size);
  expect(podsWithProcesses(second)).toHaveLength(1);

  await cordon(cluster, 'node-2');
  await cutNoMore(second.node);
  await second.startKubelet();
  await resumed(sandbox);
  expect(podsWithProcesses(second)).toEqual([]);
  // The first copy has ended before, and nothing has started its writer in the second one.
  const last = sandbox.written();
  await nothingIsLeft();
  expect(sandbox.written()).toBe(last);
  expect(endsOf(sandboxId)).toHaveLength(1);
  await host.driver.remove(sandboxId);
  await cordon(cluster, 'node-2', false);
}, 600_000);

test('a node whose power is off: with the out-of-service taint its sandbox resumes on the other node; the node is back without it', async () => {
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
  expect(await podsOf(sandbox)).toEqual(['node-1']);
  expect(endsOf(sandboxId)).toHaveLength(1);
  await host.driver.remove(sandboxId);
}, 600_000);

test('a node that never comes back: once its Node object is deleted its sandbox resumes on the other node', async () => {
  const [sandbox, removed] = [await writing(), await writing()];
  await second.powerOff();
  await kubectl(cluster, ['delete', 'node', 'node-2']);
  await Promise.all([whenLost(sandbox), whenLost(removed)]);
  await resumed(sandbox);
  await host.driver.remove(removed.spec.sandboxId);
  expect(await host.objects()).toEqual({ pods: [sandbox.spec.sandboxId], disks: [sandbox.spec.sandboxId] });
  await host.driver.remove(sandbox.spec.sandboxId);

  // The machine of that name joins again.
  await cluster.powerOn(second);
  await nothingIsLeft();
  const again = await writing();
  expect(await podsOf(again)).toEqual(['node-2']);
  await host.driver.remove(again.spec.sandboxId);
}, 600_000);
