import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node';
import { DriverError } from '../driver.ts';
import { diskContainer } from './manifests.ts';
import { sandboxContainer } from './names.ts';
import { notStarted } from './start-errors.ts';

/**
 * Why the processes of a sandbox are gone: they ended by themselves, the kernel killed the first process for lack of
 * memory, the cluster evicted the pod (drain, pre-emption, resource pressure), a client deleted the pod, or the node
 * was lost.
 */
export type PodEndReason = 'exited' | 'out_of_memory' | 'evicted' | 'deleted' | 'node_lost';

export interface PodEnd {
  reason: PodEndReason;
  /** Null: the exit code was not recorded. */
  exitCode: number | null;
  /** The last output of the template's command. */
  output: string;
  /** The cluster's explanation, for the operator's log. */
  message: string;
}

const evictions = new Set([
  'Evicted',
  'Preempting',
  'NodeAffinity',
  'NodeShutdown',
  'Terminated',
  'UnexpectedAdmissionError',
]);

/** Reasons of a deletion because the node does not answer or no longer exists. */
const nodeLosses = new Set(['DeletionByTaintManager', 'DeletionByPodGC']);

/** How the processes of a pod have ended or are about to end. Null: they run, or have not started yet. */
export function findPodEnd(pod: V1Pod): PodEnd | null {
  const { status, metadata } = pod;
  const disruption = status?.conditions?.find(
    ({ type, status: value }) => type === 'DisruptionTarget' && value === 'True',
  );
  const terminated = findStatus(pod, sandboxContainer)?.state?.terminated;
  const end = (reason: PodEndReason, message = ''): PodEnd => ({
    reason,
    exitCode: terminated?.exitCode ?? null,
    output: terminated?.message ?? '',
    message,
  });
  if (disruption) {
    return end(nodeLosses.has(disruption.reason ?? '') ? 'node_lost' : 'evicted', disruption.message ?? '');
  }
  if (status?.reason === 'NodeLost') return end('node_lost', status.message);
  if (status?.phase === 'Failed' && status.reason && evictions.has(status.reason))
    return end('evicted', status.message);
  if (terminated?.reason === 'OOMKilled') return end('out_of_memory');
  // This comes before `terminated`, because a deletion also ends the first process.
  if (metadata?.deletionTimestamp) return end('deleted');
  if (terminated || status?.phase === 'Failed' || status?.phase === 'Succeeded') return end('exited', status?.message);
  return null;
}

/** Whether the cluster reports that a pod is not ready, for example because its node does not answer. */
export const isUnready = ({ status }: V1Pod) =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value !== 'True') ?? false;

/** The address of a pod. Null: the first process of its sandbox has not started yet, or has ended. */
export function findAddress(pod: V1Pod): string | null {
  if (findPodEnd(pod) || !findStatus(pod, sandboxContainer)?.state?.running) return null;
  return pod.status?.podIP ?? null;
}

const pullFailures = new Set(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull']);
const configFailures = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);
const finalRefusals = /unauthorized|authentication|denied|forbidden|manifest unknown|name unknown|not found|invalid/i;

/** Why a pod cannot start. Null: it may still start, or it runs. */
export function findStartFailure(pod: V1Pod): DriverError | null {
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  for (const { name, state } of statuses) {
    const { reason = '', message = '' } = state?.waiting ?? {};
    if (pullFailures.has(reason)) {
      const retryable = reason !== 'InvalidImageName' && !finalRefusals.test(message);
      const cause = new Error(`${reason}: ${message}`);
      return new DriverError('image_pull_failed', "The sandbox's image could not be pulled", { cause, retryable });
    }
    if (configFailures.has(reason)) return notStarted(`${name}: ${reason}: ${message}`);
    const { exitCode = 0, message: text = '' } = state?.terminated ?? {};
    if (exitCode !== 0 && name === diskContainer && /no space left/i.test(text)) {
      return new DriverError('image_refused', "The image is larger than the sandbox's disk", {
        cause: new Error(text),
      });
    }
    if (exitCode !== 0 && name !== sandboxContainer) return notStarted(`${name} ended with ${exitCode}: ${text}`);
  }
  const end = findPodEnd(pod);
  if (!end) return null;
  if (end.reason !== 'exited') return notStarted(`${end.reason}: ${end.message}`);
  return new DriverError('runtime_exited', 'The sandbox ended before it was ready', { cause: new Error(end.message) });
}

function findStatus(pod: V1Pod, name: string): V1ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find((each) => each.name === name);
}

/** Whether the scheduler has found no node for a pod. */
export function isUnschedulable(pod: V1Pod): boolean {
  return schedulerRefusal(pod) !== null;
}

/** The scheduler's messages for a disk on another node: up to Kubernetes 1.32, from 1.33 on, and for another zone. */
const diskElsewhere = /volume node affinity|PersistentVolume's node affinity|no available volume zone/;
/** The scheduler's messages for a node without capacity, which may be the node with the disk. */
const fullNode = /Insufficient|Too many pods/;

/** Whether a pod cannot start because its disk is bound to a node that takes no pods now: cordoned, away or gone. */
export function isDiskOnClosedNode(pod: V1Pod): boolean {
  const refusal = schedulerRefusal(pod);
  return refusal !== null && diskElsewhere.test(refusal) && !fullNode.test(refusal);
}

/** Why the scheduler found no node for a pod. Null: it has found one, or has not tried yet. */
function schedulerRefusal({ status }: V1Pod): string | null {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' && scheduled.reason === 'Unschedulable' ? (scheduled.message ?? '') : null;
}

const shortages = /Insufficient |Too many pods|exceed max volume count/;

/**
 * Whether a pod would get a node if other pods ended. For example, a pod that waits for its disk would not, and neither
 * would one for which the scheduler already ends pods of lower priority.
 */
export function lacksCapacity(pod: V1Pod): boolean {
  return !pod.status?.nominatedNodeName && shortages.test(schedulerRefusal(pod) ?? '');
}
