import fs from 'node:fs';
import path from 'node:path';
import { NetworkingV1Api, type V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../../domain/ids.ts';
import { isFreeWarm, readSandboxId } from '../../../runtime/kubernetes/names.ts';
import type { KubernetesCluster } from '../support/kubernetes-cluster.ts';
import type { PodNode } from '../support/pod-node.ts';

/** The state of a sandbox according to the API server and the node's kernel, read without the driver. */
export type ClusterState = 'running' | 'paused' | 'exited' | 'absent';

export interface ClusterView {
  states: Map<SandboxId, ClusterState>;
  /** The uids of pods whose sandbox runs or is frozen, and of warm pods that run. */
  runningPods: string[];
  /** The names of warm pods, and of their disks, that no sandbox has taken. */
  freeWarm: string[];
}

/** Reads the states of a namespace's sandboxes from its pods, its claims and the kernel's freezer. */
export async function readView(cluster: KubernetesCluster, namespace: string): Promise<ClusterView> {
  const [pods, claims] = await Promise.all([
    cluster.core.listNamespacedPod({ namespace }),
    cluster.core.listNamespacedPersistentVolumeClaim({ namespace }),
  ]);
  const states = new Map<SandboxId, ClusterState>();
  const runningPods: string[] = [];
  for (const claim of claims.items) {
    const sandboxId = readSandboxId(claim);
    if (sandboxId) states.set(sandboxId, 'exited');
  }
  for (const pod of pods.items) {
    const sandboxId = readSandboxId(pod);
    const there = isFrozen(cluster, pod) ? 'paused' : 'running';
    if (sandboxId) states.set(sandboxId, isRunning(pod) ? there : 'exited');
    if (isRunning(pod) && (sandboxId || isFreeWarm(pod))) runningPods.push(pod.metadata!.uid!);
  }
  const freeWarm = [...pods.items, ...claims.items].filter(isFreeWarm).map(({ metadata }) => metadata!.name!);
  return { states, runningPods: runningPods.sort(), freeWarm };
}

function isRunning({ metadata, status }: V1Pod): boolean {
  if (metadata!.deletionTimestamp || status?.phase !== 'Running') return false;
  return status.containerStatuses?.[0]?.state?.running !== undefined;
}

/** Whether the kernel has frozen the pod's container. False for a container that ends meanwhile. */
function isFrozen(cluster: KubernetesCluster, { metadata, status }: V1Pod): boolean {
  const containerId = status?.containerStatuses?.[0]?.containerID?.split('://')[1];
  const groups = podGroups(cluster.place.groups.folder('freezer'));
  const group = groups.find((each) => path.basename(each) === `pod${metadata!.uid}`);
  if (!group || !containerId) return false;
  const state = ifThere(() => fs.readFileSync(path.join(group, containerId, 'freezer.state'), 'utf8'));
  return state?.trim() === 'FROZEN';
}

/**
 * The objects of a namespace that can belong to a sandbox, one line for each. The cluster's own objects are left out.
 */
export async function listObjects(cluster: KubernetesCluster, namespace: string): Promise<string[]> {
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

/** The uids of pods with processes, according to the control groups of the node. */
export function podsWithProcesses({ place }: Pick<PodNode, 'place'>): string[] {
  const groups = podGroups(place.groups.folder('memory'));
  return groups
    .filter((group) => hasProcesses(group))
    .map((group) => path.basename(group).slice('pod'.length))
    .sort();
}

/**
 * The traces of pods on a node, one line for each: control groups, mounts, containers, processes, links, addresses,
 * folders.
 */
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
    // The mounts include network namespaces.
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

/** Whether a group or a group below it has processes. False for a group that is removed meanwhile. */
function hasProcesses(group: string): boolean {
  if ((ifThere(() => fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8')) ?? '') !== '') return true;
  const below = ifThere(() => fs.readdirSync(group, { withFileTypes: true })) ?? [];
  return below.some((entry) => entry.isDirectory() && hasProcesses(path.join(group, entry.name)));
}

/** Reads a file or folder. Null: the control group does not exist. */
function ifThere<Answer>(read: () => Answer): Answer | null {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code!)) return null;
    throw error;
  }
}
