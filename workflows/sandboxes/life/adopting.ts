import type { ApplicationFailure } from '@temporalio/workflow';
import type { AdoptedRow } from '../../../activities/sandboxes/life.ts';
import type { SandboxReason, SandboxStatus } from '../../../domain/sandboxes/state.ts';
import { rows } from './activities.ts';
import { endingRefusal, isMovedDirectly } from './failure.ts';
import type { SandboxState, Transition } from './state.ts';

/**
 * Adopts the row after a direct pause or resume. A move that is taken over becomes a request of this workflow. Another
 * move in progress stays with its host (`isMoving`), and the API tells this workflow again when it has ended.
 */
export async function adopt(state: SandboxState): Promise<AdoptedRow> {
  const takeOver = state.adoption === 'take over';
  state.adoption = null;
  state.isAdopting = true;
  state.takenOver = null;
  const row = await rows.adoptRow(state.id, takeOver);
  state.isAdopting = false;
  if (!row.isMoving) adoptRow(state, row);
  return row;
}

/** Runs a step of the life. If the sandbox was moved directly, the step has changed nothing, and the row comes first. */
export async function unlessMoved(state: SandboxState, step: () => Promise<void>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (!isMovedDirectly(error)) throw error;
    state.inbox.putBack();
    state.requestAdoption(true);
  }
}

/** What a transition does if a direct move came first. */
interface Course {
  /** The statuses of the row from which it may begin. */
  from: readonly SandboxStatus[];
  during: SandboxStatus;
  /** The refusal for its caller at any other status. */
  refuse: (status: SandboxStatus) => ApplicationFailure;
  /** Called before it begins again, with the status of the row. */
  again?: (status: SandboxStatus) => void;
}

/**
 * Runs a requested pause, resume or restart to its end. If the sandbox was moved directly before it began, the row is
 * adopted first. The request then begins again, or is refused because it came second.
 */
export async function runTransition(
  state: SandboxState,
  { request, reason }: { request: Transition; reason: SandboxReason },
  course: Course,
  work: () => Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      await work();
      break;
    } catch (error) {
      if (!isMovedDirectly(error)) throw error;
    }
    state.requestAdoption(request.takesOver);
    const { status, isMoving } = await adopt(state);
    if (!isMoving && !state.isEnding() && course.from.includes(status)) {
      course.again?.(status);
      state.setStatus(course.during, reason);
      continue;
    }
    request.refusal = state.isEnding() ? endingRefusal() : course.refuse(status);
    if (isMoving) state.setStatus(request.before.status, request.before.reason ?? 'user_requested');
    break;
  }
  state.cancellableWork = null;
  request.done = true;
}

function adoptRow(state: SandboxState, row: AdoptedRow): void {
  const { status, phase, phaseSinceMs, memoryKept } = row;
  const reason = row.reason ?? 'user_requested';
  if (phase === null || row.run === null) return;
  // A resume that is not finished has a number, and the processes are still those of the run before.
  const run = status === 'resuming' ? row.run - 1 : row.run;
  if (phase === 'running') {
    if (state.run !== run || !state.inRunningPhase()) state.enterRunning(phaseSinceMs, run, reason);
    state.timeoutFromMs = row.timeoutFromMs;
    state.hostLoss.resetBefore(run);
  } else if (state.run !== run || state.status !== 'paused') {
    state.run = run;
    state.enterPaused(phaseSinceMs, reason, memoryKept);
    state.hostLoss.reset();
  }
  state.attempts = run;
  if (status === 'pausing') state.takenOver = state.pause ??= state.requestPause(reason, false);
  if (status === 'resuming') state.takenOver = state.resume ??= state.requestResume(false, null, null);
}
