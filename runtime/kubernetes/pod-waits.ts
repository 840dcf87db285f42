import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { DriverError } from '../driver.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { isReady } from './pod-place.ts';
import { findAddress, findStartFailure, isDiskOnClosedNode, isUnschedulable, lacksCapacity } from './pod-state.ts';
import { absent, diskAway, noCapacity, notStarted } from './start-errors.ts';

/**
 * Waits until the first process of a pod runs.
 * @param of.onShortage called after each change while no node has capacity for the pod; an error that it throws ends
 * the wait
 * @throws {DriverError} when the pod cannot start, or does not start in time
 */
export function whenRunning(
  watch: ClusterWatch,
  name: string,
  of: { seconds: number; signal: AbortSignal; onShortage?: (() => void) | undefined },
): Promise<V1Pod> {
  const { seconds, signal, onShortage } = of;
  const running = () => {
    const pod = watch.pod(name);
    if (pod && lacksCapacity(pod)) onShortage?.();
    const failure = pod && findStartFailure(pod);
    if (failure) throw failure;
    if (pod && isDiskOnClosedNode(pod)) throw diskAway();
    return pod && findAddress(pod) ? pod : undefined;
  };
  const late = () => {
    const pod = watch.pod(name);
    return pod && isUnschedulable(pod) ? noCapacity() : notStarted('the cluster did not start its pod in time');
  };
  return watch.until(name, running, { seconds, late, signal });
}

/**
 * Waits until the watch has seen the ready pod of a sandbox, and its disk.
 * @throws {DriverError} after the time
 */
export function whenMarkedReady(
  watch: ClusterWatch,
  sandboxId: SandboxId,
  { seconds, signal }: { seconds: number; signal: AbortSignal },
): Promise<V1Pod> {
  const ready = () => {
    const pod = watch.findPod(sandboxId);
    return pod && isReady(pod) && findAddress(pod) && watch.findDisk(sandboxId) ? pod : undefined;
  };
  return watch.until(sandboxId, ready, { seconds, late: notInTime, signal });
}

export const notInTime = () => new DriverError('start_failed', 'The sandbox could not be started', { retryable: true });

/** Runs `act` and aborts it when the pod ends. The error then says how the pod ended. */
export async function whileRunning(
  watch: ClusterWatch,
  { name, uid, seconds, signal }: { name: string; uid: string; seconds: number; signal: AbortSignal },
  act: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stopped = new AbortController();
  const check = () => {
    const pod = watch.pod(name);
    const failure = pod?.metadata?.uid === uid ? findStartFailure(pod) : notStarted('its pod is gone');
    if (failure) throw failure;
    return undefined as true | undefined;
  };
  const ended = watch.until(name, check, { seconds, late: absent, signal: stopped.signal });
  const cut = new AbortController();
  ended.catch((error) => cut.abort(error));
  try {
    await act(AbortSignal.any([signal, cut.signal]));
  } catch (error) {
    if (cut.signal.aborted && !signal.aborted) throw cut.signal.reason;
    throw error;
  } finally {
    stopped.abort();
  }
}
