import { CancellationScope } from '@temporalio/workflow';
import { isOver } from '../../../domain/sandboxes/state.ts';
import { actFor } from '../../request-ids.ts';
import { adopt, unlessMoved } from './adopting.ts';
import { continueLifeAsNew, shouldContinueAsNew } from './continue-as-new.ts';
import { close, terminate } from './ending.ts';
import { handleMessages } from './handlers.ts';
import type { SandboxWorkflowInput } from './messages.ts';
import { stayPaused } from './paused.ts';
import { pause } from './pausing.ts';
import { restart } from './restarting.ts';
import { resume } from './resuming.ts';
import { stayRunning } from './running.ts';
import { start } from './starting.ts';
import { SandboxState } from './state.ts';

/**
 * Runs one sandbox from `created` to `terminated` or `failed`. This workflow decides the status, and the row in
 * Postgres follows it. The workflow id is the sandbox's id.
 */
export async function sandbox(input: SandboxWorkflowInput): Promise<void> {
  await CancellationScope.nonCancellable(() => life(input));
}

async function life(input: SandboxWorkflowInput): Promise<void> {
  const state = new SandboxState(input);
  // The handlers are set before the first await, so that every message finds its handler.
  handleMessages(state);
  state.publish();
  // An operator's cancel in the Temporal Web UI reaches only this promise.
  CancellationScope.current().cancelRequested.catch(() => state.requestEnd(false, 'ended_by_operator'));
  if (state.status === 'starting' && (await start(state)) === 'nothing to start') return;
  while (!isOver(state.status)) {
    actFor((state.end ?? state.pause ?? state.restart ?? state.resume)?.requestId ?? null);
    if (state.end) await terminate(state, state.end.reason);
    else if (state.pause) await pause(state, state.pause);
    else if (state.restart) await restart(state, state.restart);
    else if (state.resume) await resume(state, state.resume);
    else if (state.adoption) await adopt(state);
    else if (state.status === 'running') await unlessMoved(state, () => stayRunning(state));
    else await unlessMoved(state, () => stayPaused(state));
    if (shouldContinueAsNew(state)) await continueLifeAsNew(state);
  }
  await close(state);
}
