import fs from 'node:fs';
import path from 'node:path';
import { NetworkingV1Api, type V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../../domain/ids.ts';
import { labels } from '../../../runtime/kubernetes/names.ts';
import type { KubernetesCluster } from '../support/kubernetes-cluster.ts';
import type { PodNode } from '../support/pod-node.ts';

/** What a sandbox is, as the API server's objects and the node's kernel have it; read without the driver. */
export type ClusterState = 'running' | 'paused' | 'exited' | 'absent';

export interface ClusterView {
  states: Map<SandboxId, ClusterState>;
  /** Uids of pods whose sandbox runs or stands still. */
  runningPods: string[];
}

/** The sandboxes of a namespace by its pods and claims, and by what the kernel has frozen. */
export async function viewOf(cluster: KubernetesCluster, namespace: string): Promise<ClusterView> {
  const [pods, claims] = await Promise.all([
    cluster.core.listNamespacedPod({ namespace }),
    cluster.core.listNamespacedPersistentVolumeClaim({ namespace }),
  ]);
  const states = new Map<SandboxId, ClusterState>();
  const runningPods: string[] = [];
  for (const claim of claims.items) states.set(claim.metadata!.name as SandboxId, 'exited');
  for (const pod of pods.items) {
    const sandboxId = pod.metadata!.labels?.[labels.sandbox] as SandboxId | undefined;
    if (!sandboxId) continue;
    const there = isFrozen(cluster, pod) ? 'paused' : 'running';
    states.set(sandboxId, isRunning(pod) ? there : 'exited');
    if (isRunning(pod)) runningPods.push(pod.metadata!.uid!);
  }
  return { states, runningPods: runningPods.sort() };
}

function isRunning({ metadata, status }: V1Pod): boolean {
  if (metadata!.deletionTimestamp || status?.phase !== 'Running') return false;
  return status.containerStatuses?.[0]?.state?.running !== undefined;
}

/** Whether the kernel has frozen the pod's container. One that goes away meanwhile is not. */
function isFrozen(cluster: KubernetesCluster, { metadata, status }: V1Pod): boolean {
  const containerId = status?.containerStatuses?.[0]?.containerID?.split('://')[1];
  const groups = podGroups(cluster.place.groups.folder('freezer'));
  const group = groups.find((each) => path.basename(each) === `pod${metadata!.uid}`);
  if (!group || !containerId) return false;
  const state = ifThere(() => fs.readFileSync(path.join(group, containerId, 'freezer.state'), 'utf8'));
  return state?.trim() === 'FROZEN';
}

/** Objects of a namespace that a sandbox may have, a line each. Its own service account and certificate are no sandbox's. */
export async function objectsOf(cluster: KubernetesCluster, namespace: string): Promise<string[]> {
  const { core } = cluster;
  const networking = cluster.config.makeApiClient(NetworkingV1Api);
  const lists = {
    pod: core.listNamespacedPod({ namespace }),
    claim: core.listNamespacedPersistentVolumeClaim({ namespace }),
    policy: networking.listNamespacedNetworkPolicy({ namespace }),
    secret: core.listNamespacedSecret({ namespace }),
    service: core.listNamespacedService({ namespace }),
    'config map': core.listNamespacedConfigMap({ namespace }),
  };
  const found = await Promise.all(
    Object.entries(lists).map(async ([kind, list]) =>
      (await list).items.map((item: { metadata?: { name?: string } }) => `${kind} ${item.metadata!.name}`),
    ),
  );
  return found.flat().filter((line) => line !== 'config map kube-root-ca.crt');
}

/** Uids of pods that have processes, by the control groups of the node. */
export function podsWithProcesses({ place }: Pick<PodNode, 'place'>): string[] {
  const groups = podGroups(place.groups.folder('memory'));
  return groups
    .filter((group) => hasProcesses(group))
    .map((group) => path.basename(group).slice('pod'.length))
    .sort();
}

/** What the node has of pods, a line each: control groups, mounts, containers, processes of theirs, links, addresses, folders. */
export async function nodeThings({ node, place }: Pick<PodNode, 'node' | 'place'>): Promise<string[]> {
  const lines = async (kind: string, script: string) =>
    (await node.run('sh', ['-c', script]))
      .split('\n')
      .filter(Boolean)
      .map((line) => `${kind} ${line}`);
  const ctr = 'ctr --address /run/containerd.sock --namespace k8s.io';
  const hierarchies = fs
    .readdirSync('/sys/fs/cgroup', { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && fs.existsSync(place.groups.folder(entry.name)));
  return [
    ...hierarchies.flatMap(({ name }) => podGroups(place.groups.folder(name)).map((group) => `control group ${group}`)),
    // Mounts of pods and containers, network namespaces too.
    ...(await lines('mount', `awk '{ print $5 }' /proc/1/mountinfo`)),
    ...(await lines('container', `${ctr} containers ls -q`)),
    ...(await lines('task', `${ctr} tasks ls -q`)),
    ...(await lines('shim', 'pgrep containerd-shim || true')),
    ...(await lines('link', `ip -brief link | awk '{ sub(/@.*/, "", $1); print $1 }'`)),
    ...(await lines('address', 'ls /run/pod-addresses/pods 2>/dev/null || true')),
    ...(await lines('folder of a pod', `ls ${place.folder}/kubelet/pods`)),
  ].filter((line) => !/^address (last_reserved_ip|lock)/.test(line));
}

function podGroups(folder: string): string[] {
  const below = ifThere(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return below
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => {
      const group = path.join(folder, name);
      return name.startsWith('pod') ? [group] : podGroups(group);
    });
}

/** In it or below. A group that goes away meanwhile has none. */
function hasProcesses(group: string): boolean {
  if ((ifThere(() => fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8')) ?? '') !== '') return true;
  const below = ifThere(() => fs.readdirSync(group, { withFileTypes: true })) ?? [];
  return below.some((entry) => entry.isDirectory() && hasProcesses(path.join(group, entry.name)));
}

/** Null: the control group is not there. */
function ifThere<Answer>(read: () => Answer): Answer | null {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code!)) return null;
    throw error;
  }
}
