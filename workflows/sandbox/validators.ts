import { isOver } from '../../domain/sandbox-state.ts';
import { refused } from './failure.ts';
import type { TimeoutChange } from './messages.ts';
import type { SandboxState } from './state.ts';

/** Checks of updates before they are accepted. They read the state and change nothing. */

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

/** Running or paused, with nothing in progress. */
export function requireResting(state: SandboxState): void {
  requireLiving(state);
  if (state.status !== 'running' && state.status !== 'paused') {
    throw refused('sandbox_busy', `The sandbox is ${state.statusForCaller()}, neither running nor paused`);
  }
}

export function requireChangeableTimeout(state: SandboxState, { timeoutSeconds, mustRaise }: TimeoutChange): void {
  requireLiving(state);
  if (mustRaise && timeoutSeconds <= state.timeoutSeconds) {
    throw refused('timeout_not_raised', `The timeout must be longer than the present ${state.timeoutSeconds} seconds`);
  }
  if (state.inRunningPhase() && state.timeoutFromMs + timeoutSeconds * 1000 <= Date.now()) {
    throw refused('timeout_already_passed', 'The sandbox has run for longer than that; terminate or pause it instead');
  }
}

/** Refuses with the words that the API uses once the workflow has closed. */
function requireNotOver({ status }: SandboxState): void {
  if (isOver(status)) throw refused('sandbox_ended', `The sandbox is ${status}`);
}
