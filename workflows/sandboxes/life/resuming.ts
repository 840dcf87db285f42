import { type ApplicationFailure, isCancellation } from '@temporalio/workflow';
import { rows, startingOn } from './activities.ts';
import { runTransition } from './adopting.ts';
import { asRefusal, endingRefusal, isMovedDirectly, neverStarted, notPaused } from './failure.ts';
import { HostLostError, hostUnavailable } from './host-reports.ts';
import { enterRunning } from './starting.ts';
import type { Resume, SandboxState } from './state.ts';

/**
 * Thaws the processes, or starts the sandbox on its disk if the processes are gone. After a failed resume the sandbox
 * stays paused.
 */
export async function resume(state: SandboxState, request: Resume): Promise<void> {
  const course = { from: ['paused', 'resuming'], during: 'resuming', refuse: notPaused } as const;
  await runTransition(state, { request, reason: 'user_requested' }, course, () => resumeOnHost(state, request));
  state.resume = null;
}

async function resumeOnHost(state: SandboxState, request: Resume): Promise<void> {
  const run = state.nextAttempt();
  try {
    if (request.answerEarly) {
      await rows.recordResuming(state.id, run);
      request.recorded = true;
    }
    const scope = state.scopeOfWork();
    state.inbox.dropUnnumberedOfReplaced();
    const resumeThere = () => startingOn(state.plan.hostId).resumeSandbox(state.id, request.storage, run);
    await enterRunning(state, await state.hostLoss.unlessLost(scope, resumeThere), run);
  } catch (error) {
    if (isMovedDirectly(error)) throw error;
    const { reason } = await rows.recordResumeFailed(state.id, state.memoryKept);
    state.setStatus('paused', reason ?? 'resume_failed');
    state.hostLoss.reset();
    request.refusal = toRefusal(state, error, 'resume_failed');
  }
}

/** The error for the caller of a resume or restart that failed with `error`. */
export function toRefusal(
  state: SandboxState,
  error: unknown,
  otherwise: 'resume_failed' | 'restart_failed',
): ApplicationFailure {
  // The activity may have failed before the cancellation reached it.
  if (state.isEnding() || isCancellation(error)) return endingRefusal();
  if (error instanceof HostLostError || neverStarted(error)) return hostUnavailable();
  return asRefusal(error, otherwise);
}
