import {
  ActivityFailure,
  ApplicationFailure,
  allHandlersFinished,
  CancellationScope,
  condition,
} from '@temporalio/workflow';
import { type SandboxReason, toLifecycleOutcome } from '../../../domain/sandboxes/state.ts';
import { actFor } from '../../request-ids.ts';
import { cleaningOn, rows } from './activities.ts';
import { type HostFailure, isMovedDirectly } from './failure.ts';
import { HostLostError } from './host-reports.ts';
import type { SandboxState } from './state.ts';

export async function terminate(state: SandboxState, reason: SandboxReason): Promise<void> {
  try {
    await rows.recordTerminating(state.id, reason);
  } catch (error) {
    if (!isMovedDirectly(error)) throw error;
    // A timer has ended a phase that was over already.
    const { asked } = state.end!;
    state.end = asked ? { ...state.end!, reason: asked } : null;
    state.requestAdoption(true);
    return;
  }
  state.setStatus('terminating', reason);
  state.endRecorded = true;
  const cleaned = await clean(state);
  await rows.recordTerminated(state.id, toLifecycleOutcome(reason, state.end?.forget ?? false), Date.now(), cleaned);
  state.setStatus('terminated', reason);
}

export async function fail(state: SandboxState, { reason, failure }: HostFailure): Promise<void> {
  await rows.recordFailed(state.id, reason, failure, Date.now());
  state.failure = failure.message;
  state.setStatus('failed', reason);
  if (await clean(state)) await rows.recordCleaned(state.id);
}

/** @returns true when nothing of the sandbox is left on its host. A host that is away cleans up when it is back. */
async function clean(state: SandboxState): Promise<boolean> {
  return CancellationScope.nonCancellable(async () => {
    const host = cleaningOn(state.plan.hostId);
    const onHost = (work: () => Promise<void>) => state.hostLoss.unlessLost(new CancellationScope(), work);
    try {
      await onHost(() => host.stopSandbox(state.id));
      await rows.recordStopped(state.id, Date.now());
      await onHost(() => host.removeSandbox(state.id));
      return true;
    } catch (error) {
      if (error instanceof ActivityFailure || error instanceof HostLostError) return false;
      throw error;
    }
  });
}

/**
 * Waits until the handlers have replied, and carries out requests to terminate or forget that arrived while the sandbox
 * was ending.
 * @throws {ApplicationFailure} when the sandbox has failed, so that Temporal shows its workflow as failed. The message
 * contains only the reason, because workers log it.
 */
export async function close(state: SandboxState): Promise<void> {
  let forgotten = false;
  for (;;) {
    actFor(state.end?.requestId ?? null);
    if (state.end && state.status === 'failed') await terminate(state, state.end.reason);
    state.endRecorded = true;
    if (state.end?.forget && !forgotten) {
      await rows.recordForgotten(state.id, Date.now());
      forgotten = true;
    }
    await condition(allHandlersFinished);
    if (!state.end || (state.status === 'terminated' && (forgotten || !state.end.forget))) break;
  }
  if (state.status === 'failed') {
    throw ApplicationFailure.nonRetryable(`The sandbox has failed: ${state.reason}`, state.reason);
  }
}
