import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { V1PersistentVolumeSpec } from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import type { KubernetesCluster } from './kubernetes-cluster.ts';

/** Runs kubectl as an administrator. @returns its standard output */
export async function kubectl(cluster: KubernetesCluster, words: readonly string[]): Promise<string> {
  const of = ['--kubeconfig', cluster.kubeConfigFile];
  return (await promisify(execFile)(kubernetesPrograms().kubectl, [...of, ...words])).stdout;
}

/** Cordons a node, or uncordons it. */
export async function cordon(cluster: KubernetesCluster, name: string, isClosed = true): Promise<void> {
  const body = [{ op: 'add', path: '/spec/unschedulable', value: isClosed }];
  await cluster.core.patchNode({ name, body });
}

/** Evicts all sandboxes of a node. The node stays cordoned. */
export async function drain(cluster: KubernetesCluster, name: string): Promise<void> {
  const options = ['--ignore-daemonsets', '--delete-emptydir-data', '--force', '--timeout=120s'];
  await kubectl(cluster, ['drain', name, ...options]);
}

/** Calls `act` while all other nodes are cordoned. */
export async function onNode<Result>(
  cluster: KubernetesCluster,
  name: string,
  act: () => Promise<Result>,
): Promise<Result> {
  const { items } = await cluster.core.listNode();
  const others = items.map(({ metadata }) => metadata!.name!).filter((each) => each !== name);
  for (const other of others) await cordon(cluster, other);
  try {
    return await act();
  } finally {
    for (const other of others) await cordon(cluster, other, false);
  }
}

/** A volume that every node can mount, like network storage. All nodes see this folder of the machine. */
export const sharedFolder =
  ({ place }: KubernetesCluster) =>
  (name: string): Pick<V1PersistentVolumeSpec, 'hostPath'> => ({
    hostPath: { path: place.file(`shared/${name}`), type: 'DirectoryOrCreate' },
  });

/** A volume that exists only on one node. Its folder must exist. */
export const folderOfNode = (node: string, path: string): Pick<V1PersistentVolumeSpec, 'local' | 'nodeAffinity'> => ({
  local: { path },
  nodeAffinity: {
    required: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }] }],
    },
  },
});
