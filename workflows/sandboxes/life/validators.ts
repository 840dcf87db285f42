import { AppError } from '../../../domain/errors.ts';
import { isOver } from '../../../domain/sandboxes/state.ts';
import { requirePossibleTimeout, type TimeoutChange } from '../../../domain/sandboxes/timeout-change.ts';
import { refused } from './failure.ts';
import type { SandboxState } from './state.ts';

/** Checks updates before the workflow accepts them. Validators read the state and change nothing. */

export function requireLiving(state: SandboxState): void {
  if (state.end || isOver(state.status)) throw refused('sandbox_ended', 'The sandbox has ended');
}

export function requireRunning(state: SandboxState): void {
  requireNotOver(state);
  if (state.end || state.status !== 'running') {
    throw refused('sandbox_not_running', `The sandbox is ${state.statusForCaller()}, not running`);
  }
}

export function requirePaused(state: SandboxState): void {
  requireNotOver(state);
  if (state.end || state.status !== 'paused') {
    throw refused('sandbox_not_paused', `The sandbox is ${state.statusForCaller()}, not paused`);
  }
}

/** Requires that the sandbox is running or paused and no transition is in progress. */
export function requireStable(state: SandboxState): void {
  requireLiving(state);
  if (state.status !== 'running' && state.status !== 'paused') {
    throw refused('sandbox_busy', `The sandbox is ${state.statusForCaller()}, neither running nor paused`);
  }
}

export function requireChangeableTimeout(state: SandboxState, change: TimeoutChange): void {
  requireLiving(state);
  try {
    requirePossibleTimeout(state.phaseTimeout(), change, Date.now());
  } catch (error) {
    throw error instanceof AppError ? refused(error.code, error.message) : error;
  }
}

/** Refuses with the texts that the API uses once the workflow has closed. */
function requireNotOver({ status }: SandboxState): void {
  if (isOver(status)) throw refused('sandbox_ended', `The sandbox is ${status}`);
}
