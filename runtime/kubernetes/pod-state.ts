import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node';
import { DriverError } from '../driver.ts';
import { diskContainer } from './manifests.ts';
import { sandboxContainer } from './names.ts';

/**
 * Why the processes of a sandbox are gone: they ended by themselves, the kernel killed their first one for lack of
 * memory, the cluster took their place away (drained, pre-empted, short of something), somebody deleted the pod, or
 * their node is away.
 */
export type PodEndReason = 'exited' | 'out_of_memory' | 'evicted' | 'deleted' | 'node_lost';

export interface PodEnd {
  reason: PodEndReason;
  /** Null: nothing has recorded it. */
  exitCode: number | null;
  /** The last output of the template's command. */
  output: string;
  /** What the cluster says about it, for the operator's log. */
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

/** Reasons of a deletion because the node does not answer, or is no more. */
const nodeLosses = new Set(['DeletionByTaintManager', 'DeletionByPodGC']);

/** How the processes of a pod ended, or are about to end. Null: they go on. */
export function endOf(pod: V1Pod): PodEnd | null {
  const { status, metadata } = pod;
  const disruption = status?.conditions?.find(
    ({ type, status: value }) => type === 'DisruptionTarget' && value === 'True',
  );
  const terminated = statusOf(pod, sandboxContainer)?.state?.terminated;
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
  // The first process ends because of the deletion.
  if (metadata?.deletionTimestamp) return end('deleted');
  if (terminated || status?.phase === 'Failed' || status?.phase === 'Succeeded') return end('exited', status?.message);
  return null;
}

/** The address of a pod whose sandbox's first process runs. Null: it does not run yet, or not any more. */
export function addressOf(pod: V1Pod): string | null {
  if (endOf(pod) || !statusOf(pod, sandboxContainer)?.state?.running) return null;
  return pod.status?.podIP ?? null;
}

const pullFailures = new Set(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull']);
const configFailures = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);
const finalRefusals = /unauthorized|authentication|denied|forbidden|manifest unknown|name unknown|not found|invalid/i;

/** Why a pod that is starting cannot start. Null: it may yet. */
export function startFailureOf(pod: V1Pod): DriverError | null {
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
  const end = endOf(pod);
  if (!end) return null;
  if (end.reason !== 'exited') return notStarted(`${end.reason}: ${end.message}`);
  return new DriverError('runtime_exited', 'The sandbox ended before it was ready', { cause: new Error(end.message) });
}

const notStarted = (text: string) =>
  new DriverError('start_failed', 'The sandbox could not be started', { cause: new Error(text), retryable: true });

function statusOf(pod: V1Pod, name: string): V1ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find((each) => each.name === name);
}

/** Whether no node has room for a pod. */
export function isUnschedulable(pod: V1Pod): boolean {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' && scheduled.reason === 'Unschedulable';
}
