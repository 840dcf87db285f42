import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { NetworkingV1Api, PatchStrategy, setHeaderOptions, type V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxSpec } from '../../runtime/driver.ts';
import { Cluster } from '../../runtime/kubernetes/cluster.ts';
import { buildDisk, buildPod, buildPolicy, type ManifestOptions } from '../../runtime/kubernetes/manifests.ts';
import { until } from '../support/until.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import type { WorkerState } from './support/watching-worker.ts';

const many = 1000;
const user = 'host-worker';
const namespace = 'sandboxes';
const options: ManifestOptions = {
  namespace,
  hostId: 'host-of-many',
  agentImage: 'registry.example/agent',
  resolveImage: (reference) => reference,
  clientRanges: ['198.18.0.1/32'],
};
const facts = { folders: ['etc', 'home', 'opt', 'root', 'srv', 'tmp', 'usr', 'var'], user: '0:0', cwd: '/' };
const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
const names = Array.from({ length: many }, (_, at) => `sbx-${at}`);

let cluster: KubernetesCluster;
let worker: ChildProcess;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ kind: 'api-only', recordedUser: user });
  await cluster.core.createNamespace({ body: { metadata: { name: namespace } } });
  // The API server refuses pods without this account. Usually a controller makes it, but none runs here.
  await cluster.core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'default' } } });
  await each(names, makeSandbox);
  worker = await startWorker();
}, 300_000);
afterAll(async () => {
  worker?.kill('SIGKILL');
  await cluster?.stop();
}, 60_000);

test('a worker lists 1,000 sandboxes once and watches them; its memory does not grow with 5,000 changes', async () => {
  const before = await state();
  expect(before.running).toBe(many);
  for (let run = 2; run <= 6; run += 1) {
    await each(names, (name) => annotate(name, run));
    await until(async () => (await state()).runs.join() === `${run}`, 60_000);
  }
  const after = await state();
  process.stdout.write(`live bytes at first ${before.liveBytes}, after 5,000 changes ${after.liveBytes}\n`);
  expect(after.liveBytes - before.liveBytes).toBeLessThan(before.liveBytes / 10);
  // The limit is 50 MB for the program, and 64 KiB for the pod and the disk of each sandbox.
  expect(after.liveBytes).toBeLessThan(50e6 + many * 65_536);
  expect(lists()).toEqual({ pods: 1, persistentvolumeclaims: 1 });
  expect(new Set(requests().map(({ verb }) => verb))).toEqual(new Set(['list', 'watch']));
  const watches = requests().filter(({ verb }) => verb === 'watch');
  for (const { uri } of watches) expect(uri).toMatch(/allowWatchBookmarks=true/);
}, 300_000);

test('a worker finds and reports changes during an outage of the worker and the API server with one more list', async () => {
  const [first, gone] = [lists(), names.slice(0, 100)];
  worker.kill('SIGSTOP');
  await each(gone, (name) => cluster.core.deleteNamespacedPod({ name, namespace, gracePeriodSeconds: 0 }));
  await cluster.node.program('kube-apiserver').kill('SIGKILL');
  await cluster.startAgain('kube-apiserver');
  // The restarted API server no longer has the old resource versions, so the watch cannot continue from them.
  worker.kill('SIGCONT');
  await until(async () => (await state()).running === many - gone.length, 60_000);
  const { ends } = await state();
  expect(ends.map(({ sandboxId }) => sandboxId).sort()).toEqual([...gone].sort());
  expect(new Set(ends.map(({ reason }) => reason))).toEqual(new Set(['deleted']));
  const { pods, persistentvolumeclaims } = lists();
  expect(pods).toBe(first.pods! + 1);
  expect(persistentvolumeclaims).toBeLessThanOrEqual(first.persistentvolumeclaims! + 1);
}, 120_000);

test('the next write of the driver restores a field that another client has changed; fields of other clients stay', async () => {
  const driver = new Cluster(cluster.config, namespace);
  const networking = cluster.config.makeApiClient(NetworkingV1Api);
  const signal = AbortSignal.timeout(60_000);
  const name = 'sbx-500';
  const spec = createSpec(name);
  const { uid } = (await cluster.core.readNamespacedPersistentVolumeClaim({ name, namespace })).metadata!;
  const closed = buildPolicy(spec, { name, uid: uid! }, options);
  await driver.applyPolicy(closed, signal);
  const open = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name, annotations: { note: 'mine' } },
    spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{}] },
  };
  const apply = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply);
  const of = { name, namespace, body: open, fieldManager: 'somebody' };
  await expect(networking.patchNamespacedNetworkPolicy(of, apply)).rejects.toMatchObject({ code: 409 });
  await networking.patchNamespacedNetworkPolicy({ ...of, force: true }, apply);
  await driver.applyPolicy(closed, signal);
  const found = await networking.readNamespacedNetworkPolicy({ name, namespace });
  expect(found.spec).toMatchObject({ policyTypes: ['Ingress', 'Egress'], podSelector: closed.spec!.podSelector });
  expect(found.spec!.egress ?? []).toEqual([]);
  expect(found.metadata!.annotations).toEqual({ note: 'mine' });
}, 60_000);

/** The worker's requests for pods and claims. */
const requests = () => cluster.recordedRequests().filter(({ uri }) => /\/(pods|persistentvolumeclaims)\b/.test(uri));

/** The number of list requests for each kind. */
function lists(): Record<string, number> {
  const kinds = requests().flatMap(({ verb, uri }) => (verb === 'list' ? [/\/([a-z]+)(\?|$)/.exec(uri)![1]!] : []));
  return Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((other) => other === kind).length]));
}

const createSpec = (name: string): SandboxSpec => ({
  sandboxId: name as SandboxId,

  run: 1,
  accountId: 'acc-test',
  image: 'registry.example/image',
  cpuCount: 1,
  memoryMb: 512,
  storageGb: 5,
  allowInternetAccess: false,
  env: {},
  accessToken: 'access',
  platformToken: 'platform',
  command: null,
  readyProbe: null,
  udpPorts: [],
});

/** Makes the objects of a running sandbox. */
async function makeSandbox(name: string, at: number): Promise<void> {
  const pod = buildPod(createSpec(name), facts, options);
  pod.metadata!.annotations!['sandbox-platform/phase'] = 'ready';
  pod.spec!.nodeName = 'node-1';
  const core = cluster.core;
  await core.createNamespacedPersistentVolumeClaim({ namespace, body: buildDisk(createSpec(name), facts, options) });
  await core.createNamespacedPod({ namespace, body: pod });
  await core.patchNamespacedPodStatus({ name, namespace, body: { status: runningStatus(pod, at) } }, merge);
}

function runningStatus(pod: V1Pod, at: number): object {
  const now = new Date().toISOString();
  const container = { imageID: 'registry.example/image@sha256:0', restartCount: 0, ready: true };
  const ended = { terminated: { exitCode: 0, reason: 'Completed', startedAt: now, finishedAt: now } };
  const address = `198.19.${at >> 8}.${at & 255}`;
  return {
    phase: 'Running',
    podIP: address,
    podIPs: [{ ip: address }],
    hostIP: '198.18.0.2',
    startTime: now,
    conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(
      (type) => ({
        type,
        status: 'True',
        lastTransitionTime: now,
      }),
    ),
    initContainerStatuses: pod.spec!.initContainers!.map(({ name, image }) => ({
      name,
      image,
      ...container,
      state: ended,
    })),
    containerStatuses: pod.spec!.containers.map(({ name, image }) => ({
      name,
      image,
      ...container,
      started: true,
      containerID: `containerd://${name}`,
      state: { running: { startedAt: now } },
    })),
  };
}

async function annotate(name: string, run: number): Promise<void> {
  const body = { metadata: { annotations: { 'sandbox-platform/run': `${run}` } } };
  await cluster.core.patchNamespacedPod({ name, namespace, body }, merge);
}

/** Calls `act` for each name, with 16 calls at the same time. */
async function each(all: string[], act: (name: string, at: number) => Promise<unknown>): Promise<void> {
  const waiting = all.entries();
  const lane = async () => {
    for (const [at, name] of waiting) await act(name, at);
  };
  await Promise.all(Array.from({ length: 16 }, lane));
}

async function startWorker(): Promise<ChildProcess> {
  const config = await cluster.createConfig({ name: user, group: 'system:masters' });
  const file = path.join(cluster.place.folder, 'worker.kubeconfig');
  fs.writeFileSync(file, config.exportConfig(), { mode: 0o600 });
  const program = path.join(import.meta.dirname, 'support/watching-worker.ts');
  const child = fork(program, [file, namespace, options.hostId], { execArgv: ['--expose-gc'] });
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
  expect(said).toBe('open');
  return child;
}

async function state(): Promise<WorkerState> {
  worker.send('state');
  const [said] = await once(worker, 'message');
  return said as WorkerState;
}
