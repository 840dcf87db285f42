import { setHandler } from '@temporalio/workflow';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import { SandboxCommands } from './commands.ts';
import {
  addPortUpdate,
  connectUpdate,
  endSignal,
  hostLostSignal,
  hostReportSignal,
  lifeQuery,
  pauseRequestedSignal,
  pauseUpdate,
  projectSwitchedSignal,
  removePortUpdate,
  restartUpdate,
  resumeUpdate,
  settledUpdate,
  storageCredentialsUpdate,
  terminateUpdate,
  timeoutUpdate,
} from './messages.ts';
import type { SandboxState } from './state.ts';
import { requireChangeableTimeout, requireLiving, requirePaused, requireRunning, requireStable } from './validators.ts';

/**
 * Sets the handler of each message of `messages.ts`. Keep the order: messages that arrive before the workflow's first
 * task are handled in the order in which their handlers are set.
 */
export function handleMessages(state: SandboxState): void {
  const commands = new SandboxCommands(state);
  setHandler(settledUpdate, () => commands.settled());
  setHandler(pauseUpdate, ({ wait }) => commands.pause(wait), {
    validator: (_: { wait: boolean }) => requireRunning(state),
  });
  setHandler(resumeUpdate, ({ wait, storage }) => commands.resume(wait, storage ?? null), {
    validator: (_: { wait: boolean }) => requirePaused(state),
  });
  setHandler(restartUpdate, ({ storage }) => commands.restart(storage), {
    validator: (_: { storage: StorageChange | null }) => requireStable(state),
  });
  setHandler(storageCredentialsUpdate, ({ sealed, wait }) => commands.receiveCredentials(sealed, wait));
  setHandler(connectUpdate, ({ timeoutSeconds }) => commands.connect(timeoutSeconds), {
    validator: (_: { timeoutSeconds: number | null }) => requireLiving(state),
  });
  setHandler(timeoutUpdate, (change) => commands.changeTimeout(change), {
    validator: (change) => requireChangeableTimeout(state, change),
  });
  setHandler(addPortUpdate, (port) => state.ports.add(state.plan.hostId, port), {
    validator: (_: Port) => requireRunning(state),
  });
  setHandler(removePortUpdate, (port) => state.ports.remove(state.plan.hostId, port), {
    validator: (_: number) => requireRunning(state),
  });
  setHandler(terminateUpdate, ({ forget }) => commands.terminate(forget));
  setHandler(endSignal, ({ forget }) => state.requestEnd(forget));

  setHandler(hostReportSignal, (report) => state.inbox.receive(report));
  setHandler(hostLostSignal, ({ hostId, run }) => receiveHostLoss(state, hostId, run));
  setHandler(projectSwitchedSignal, ({ projectId }) => {
    state.plan.projectId = projectId;
    state.publish();
  });

  setHandler(pauseRequestedSignal, ({ reason }) => {
    if (state.status === 'running' && !state.isEnding()) state.requestPause(reason, false);
  });

  setHandler(lifeQuery, () => state.view());
}

/**
 * Drops a report about an earlier run, because the host may have come back and may run the sandbox again. A paused
 * sandbox needs only its disk, and the disk is there when the host is back.
 */
function receiveHostLoss(state: SandboxState, hostId: string, run: number | null): void {
  if (hostId !== state.plan.hostId || state.status === 'paused') return;
  const beginning = state.status === 'starting' || state.status === 'resuming';
  if (run !== null && run < (beginning ? state.attempts : state.run)) return;
  state.hostLoss.record();
}
