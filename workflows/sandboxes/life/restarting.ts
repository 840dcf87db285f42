import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';
import { rows, startingOn } from './activities.ts';
import { runTransition } from './adopting.ts';
import { busy, isMovedDirectly } from './failure.ts';
import { toRefusal } from './resuming.ts';
import { enterRunning } from './starting.ts';
import type { Restart, SandboxState } from './state.ts';

/** Ends the processes, running or frozen, and starts the sandbox on its disk. */
export async function restart(state: SandboxState, request: Restart): Promise<void> {
  const again = (status: SandboxStatus) => {
    request.from = status === 'paused' ? 'paused' : 'running';
  };
  const course = { from: ['running', 'paused'], during: 'resuming', refuse: busy, again } as const;
  await runTransition(state, { request, reason: 'restarted' }, course, () => restartOnHost(state, request));
  state.restart = null;
}

async function restartOnHost(state: SandboxState, request: Restart): Promise<void> {
  const run = state.nextAttempt();
  try {
    const scope = state.scopeOfWork();
    state.inbox.dropUnnumberedOfReplaced();
    const restartThere = () => startingOn(state.plan.hostId).restartSandbox(state.id, request.storage, run);
    await enterRunning(state, await state.hostLoss.unlessLost(scope, restartThere), run, 'restarted');
  } catch (error) {
    if (isMovedDirectly(error)) throw error;
    await afterFailedRestart(state, request);
    request.refusal = toRefusal(state, error, 'restart_failed');
  }
}

/** A refused restart has ended no process. A failed restart has ended all of them, and the disk is there. */
async function afterFailedRestart(state: SandboxState, { from }: Restart): Promise<void> {
  const atMs = Date.now();
  const { status, reason } = await rows.recordRestartFailed(state.id, from);
  if (status === 'running') state.setStatus('running', reason ?? 'user_requested');
  else if (from === 'paused' && reason !== 'restart_failed') state.setStatus('paused', reason ?? 'restart_failed');
  else state.enterPaused(from === 'paused' ? state.pausedAtMs : atMs, 'restart_failed', false);
  // A paused sandbox needs no host. A running sandbox without its host fails next.
  if (state.status === 'paused') state.hostLoss.reset();
}
