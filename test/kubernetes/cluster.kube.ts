import fs from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { until } from '../support/until.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { pushBusybox, readyPod, runInPod } from './support/pods.ts';

let cluster: KubernetesCluster;
let image: string;
let pod: V1Pod;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  image = await pushBusybox(cluster);
  pod = await readyPod(cluster, busybox('first', { memory: '64Mi', cpu: '250m' }));
}, 300_000);

afterAll(async () => {
  await cluster?.stop();
}, 120_000);

function busybox(name: string, limits: Record<string, string>): V1Pod {
  return {
    metadata: { name, namespace: 'default' },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'main', image, command: ['sleep', '1000000'], resources: { limits, requests: limits } }],
    },
  };
}

const groupFolder = (hierarchy: string, { metadata }: V1Pod) =>
  `${cluster.place.groups.folder(hierarchy)}/kubepods/pod${metadata!.uid}`;

test('a pod runs an image from the registry; a command in it returns its output and its exit code', async () => {
  const { stdout, stderr, status } = await runInPod(cluster, pod, ['sh', '-c', 'echo out; echo err >&2; exit 3']);
  expect([stdout, stderr]).toEqual(['out\n', 'err\n']);
  expect(status.status).toBe('Failure');
  expect(status.details?.causes).toContainEqual({ reason: 'ExitCode', message: '3' });
});

test('the machine can connect to a pod by its address, and pods can connect to Services', async () => {
  expect((await cluster.core.readNode({ name: 'node-1' })).status?.nodeInfo?.kubeletVersion).toBe('v1.34.4');
  await runInPod(cluster, pod, ['sh', '-c', 'echo found > /page; httpd -p 8000 -h /']);
  const { podIP } = pod.status!;
  await cluster.core.createNamespacedService({
    namespace: 'default',
    body: {
      metadata: { name: 'page' },
      spec: { ports: [{ port: 80, targetPort: 8000 }], selector: { app: 'page' } },
    },
  });
  await cluster.core.patchNamespacedPod({
    namespace: 'default',
    name: 'first',
    body: [{ op: 'add', path: '/metadata/labels', value: { app: 'page' } }],
  });
  const { spec } = await cluster.core.readNamespacedService({ namespace: 'default', name: 'page' });
  const other = await readyPod(cluster, busybox('second', { memory: '32Mi', cpu: '100m' }));
  // kube-proxy learns of the Service's endpoints after the API server.
  await until(async () => {
    // `wget` of Busybox crashes in an image without a C library.
    const request = `printf 'GET /page HTTP/1.0\\r\\n\\r\\n' | nc -w 2 ${spec!.clusterIP} 80`;
    return (await runInPod(cluster, other, ['sh', '-c', request])).stdout.includes('found');
  });
  const direct = await fetch(`http://${podIP}:8000/page`);
  expect(await direct.text()).toBe('found\n');
  // Each pod has its own link, so the node's rules see each packet between two pods.
  expect(await cluster.node.run('ip', ['route', 'get', podIP!])).toContain('dev veth');
});

test('the limits of a pod are set on its control group, and a pod that uses more memory is killed', async () => {
  const readLimit = (hierarchy: string, file: string) =>
    fs.readFileSync(`${groupFolder(hierarchy, pod)}/${file}`, 'utf8');
  expect(readLimit('memory', 'memory.limit_in_bytes')).toBe(`${64 * 2 ** 20}\n`);
  expect(readLimit('cpu', 'cpu.cfs_quota_us')).toBe('25000\n');
  const greedy = busybox('greedy', { memory: '32Mi', cpu: '500m' });
  greedy.spec!.restartPolicy = 'Never';
  greedy.spec!.containers[0]!.command = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=256M', 'count=1'];
  await cluster.core.createNamespacedPod({ namespace: 'default', body: greedy });
  await until(async () => {
    const { status } = await cluster.core.readNamespacedPod({ namespace: 'default', name: 'greedy' });
    return status?.containerStatuses?.[0]?.state?.terminated?.reason === 'OOMKilled';
  });
});

test('a kubelet that was killed and started again still knows its pods', async () => {
  await cluster.node.program('kubelet').kill('SIGKILL');
  await cluster.startKubelet();
  // The kubelet finds its pods shortly after its start.
  await until(async () => (await runInPod(cluster, pod, ['echo', 'still'])).stdout === 'still\n');
  const { status } = await cluster.core.readNamespacedPod({ namespace: 'default', name: 'first' });
  expect(status?.containerStatuses?.[0]).toMatchObject({ ready: true, restartCount: 0 });
});
