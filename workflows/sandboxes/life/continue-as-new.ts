import { allHandlersFinished, condition, continueAsNew, workflowInfo } from '@temporalio/workflow';
import type { SandboxWorkflowInput } from './messages.ts';
import type { SandboxState } from './state.ts';

/** The workflow continues as new after this many events, even if the server does not suggest it. */
const maxHistoryLength = 6000;

/** Whether the history is long and nothing is in progress. */
export function shouldContinueAsNew(state: SandboxState): boolean {
  // The server suggests to continue as new after a long history or many updates. The limits differ between servers.
  const { continueAsNewSuggested, historyLength } = workflowInfo();
  return (
    (continueAsNewSuggested || historyLength > maxHistoryLength) &&
    (state.status === 'running' || state.status === 'paused') &&
    ![state.end, state.adoption, state.pause, state.resume, state.restart].some(Boolean) &&
    !state.inbox.hasUnnumbered('exited') &&
    !state.hostLoss.happened
  );
}

/** Continues as new when every handler has replied, unless a request arrives meanwhile. */
export async function continueLifeAsNew(state: SandboxState): Promise<void> {
  await condition(() => allHandlersFinished() || !shouldContinueAsNew(state));
  if (!shouldContinueAsNew(state)) return;
  const { id: sandboxId, plan, timeoutSeconds } = state;
  const input = { sandboxId, plan, timeoutSeconds, carried: state.carry() };
  await continueAsNew<(input: SandboxWorkflowInput) => Promise<void>>(input);
}
