import fs from 'node:fs';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Exec, type V1Pod, type V1Status } from '@kubernetes/client-node';
import { muslTree } from '../../support/musl-tree.ts';
import { until } from '../../support/until.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';

/** Pushes an image with the shell and programs of Busybox. @returns its reference */
export async function pushBusybox(cluster: KubernetesCluster): Promise<string> {
  const content = fs.readFileSync(`${await muslTree()}/bin/busybox`);
  const names = ['sh', 'cat', 'dd', 'echo', 'grep', 'id', 'ls', 'httpd', 'nc', 'nohup', 'printf', 'sleep'];
  const links = names.map((name) => [`bin/${name}`, { link: 'busybox' }] as const);
  return cluster.push('busybox', { 'bin/busybox': { content, mode: 0o755 }, ...Object.fromEntries(links) });
}

/** Makes volumes for claims of a storage class without a provisioner. They are removed together with the cluster. */
export async function makeVolumes(
  cluster: KubernetesCluster,
  storageClassName: string,
  count: number,
  storage = '1Gi',
): Promise<void> {
  for (let number = 1; number <= count; number += 1) {
    const name = `${storageClassName}-${number}`;
    await cluster.core.createPersistentVolume({
      body: {
        metadata: { name },
        spec: {
          accessModes: ['ReadWriteOnce'],
          capacity: { storage },
          hostPath: { path: `/run/${name}`, type: 'DirectoryOrCreate' },
          persistentVolumeReclaimPolicy: 'Retain',
          storageClassName,
        },
      },
    });
  }
}

/** Makes a pod and waits until it is Ready. */
export async function readyPod(cluster: KubernetesCluster, pod: V1Pod): Promise<V1Pod> {
  const namespace = pod.metadata?.namespace ?? 'default';
  const name = pod.metadata!.name!;
  await cluster.core.createNamespacedPod({ namespace, body: pod });
  let seen: V1Pod = pod;
  try {
    await until(async () => {
      seen = await cluster.core.readNamespacedPod({ namespace, name });
      return seen.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
    }, 90_000);
  } catch (cause) {
    const events = await cluster.core.listNamespacedEvent({ namespace });
    throw new Error(
      `${name}: ${seen.status?.phase} ${JSON.stringify(seen.status?.containerStatuses)} ${events.items.map(({ message }) => message).join('; ')}`,
      { cause },
    );
  }
  return seen;
}

/** Runs a command in a pod and waits for its end. */
export async function runInPod(
  cluster: KubernetesCluster,
  { metadata, spec }: V1Pod,
  command: string[],
): Promise<{ stdout: string; stderr: string; status: V1Status }> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const ended = Promise.withResolvers<V1Status>();
  const socket = await new Exec(cluster.config).exec(
    metadata!.namespace!,
    metadata!.name!,
    spec!.containers[0]!.name,
    command,
    stdout,
    stderr,
    null,
    false,
    ended.resolve,
  );
  socket.once('error', ended.reject);
  socket.once('close', () => ended.reject(new Error('The connection ended before the command')));
  const status = await ended.promise;
  for (const stream of [stdout, stderr]) stream.end();
  return { stdout: await text(stdout), stderr: await text(stderr), status };
}
