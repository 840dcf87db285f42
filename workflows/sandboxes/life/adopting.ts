import type { AdoptedRow } from '../../../activities/sandboxes/life.ts';
import type { SandboxReason, SandboxStatus } from '../../../domain/sandboxes/state.ts';
import { rows } from './activities.ts';
import { endingRefusal, isMovedDirectly, refused } from './failure.ts';
import type { SandboxState, Transition } from './state.ts';

/**
 * Adopts the row after a direct pause or resume. A move that is taken over becomes a request of this workflow.
 * @returns the status of the row
 */
export async function adopt(state: SandboxState): Promise<SandboxStatus> {
  const takeOver = state.adoption === 'take over';
  state.adoption = null;
  state.isAdopting = true;
  const row = await rows.adoptRow(state.id, takeOver);
  state.isAdopting = false;
  // If the host is still at it, the API tells this workflow again when the move has ended.
  if (!row.isMoving) adoptRow(state, row);
  return row.status;
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

/** The statuses of the row at which a transition begins, its own status meanwhile, and the one that it leads to. */
interface Course {
  from: readonly SandboxStatus[];
  during: SandboxStatus;
  /** Null: the transition is needed in every status. */
  to: SandboxStatus | null;
  /** Called before it begins again, with the status of the row. */
  again?: (status: SandboxStatus) => void;
}

/**
 * Runs a requested pause, resume or restart to its end. If the sandbox was moved directly before it began, the row is
 * adopted first: the request is then fulfilled, begins again, or is refused because it came second.
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
    state.adoption = 'take over';
    const status = await adopt(state);
    if (state.isEnding()) request.refusal = endingRefusal();
    else if (course.from.includes(status)) {
      course.again?.(status);
      state.setStatus(course.during, reason);
      continue;
    } else if (status !== course.to) request.refusal = refused('sandbox_busy', `The sandbox is ${status}`);
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
  if (status === 'pausing') state.pause ??= state.requestPause(reason, false);
  if (status === 'resuming') state.resume ??= state.requestResume(false, null, null);
}
