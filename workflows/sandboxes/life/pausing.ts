import { isCancellation } from '@temporalio/workflow';
import { cleaningOn, pausingOn, rows } from './activities.ts';
import { runTransition } from './adopting.ts';
import { fail } from './ending.ts';
import { asRefusal, endingRefusal, isMovedDirectly, neverStarted, notRunning, refused } from './failure.ts';
import { HostLostError, hostLostFailure, hostUnavailable } from './host-reports.ts';
import type { Pause, SandboxState } from './state.ts';

/**
 * After this many auto-pauses that failed to freeze the processes, the next one ends the processes and keeps the disk.
 */
const autoPauseTries = 3;

/** Freezes the processes. A pause that fails leaves the sandbox running. */
export async function pause(state: SandboxState, request: Pause): Promise<void> {
  const course = { from: ['running', 'pausing'], during: 'pausing', refuse: notRunning } as const;
  await runTransition(state, { request, reason: request.reason }, course, () => pauseOnHost(state, request));
  state.pause = null;
}

async function pauseOnHost(state: SandboxState, request: Pause): Promise<void> {
  const { reason } = request;
  const requestedMs = Date.now();
  if (request.answerEarly) {
    await rows.recordPausing(state.id, reason, requestedMs);
    request.recorded = true;
  }
  try {
    const memoryKept = await freezeOrStop(state, reason, requestedMs);
    const atMs = Date.now();
    await rows.recordPaused(state.id, reason, atMs, memoryKept);
    state.enterPaused(atMs, reason, memoryKept);
    if (reason === 'host_disk_pressure') await rows.warnOfDiskPressure(state.id, atMs);
  } catch (error) {
    if (isMovedDirectly(error)) throw error;
    if (error instanceof HostLostError) {
      request.refusal = refused('sandbox_ended', hostLostFailure.failure.message);
      return await fail(state, hostLostFailure);
    }
    if (isCancellation(error) && state.isEnding()) {
      request.refusal = endingRefusal();
      return;
    }
    await rows.recordPauseFailed(state.id);
    if (reason === 'auto_pause') state.failedAutoPauses += 1;
    state.setStatus('running', 'pause_failed');
    if (state.isEnding()) request.refusal = endingRefusal();
    else request.refusal = neverStarted(error) ? hostUnavailable() : asRefusal(error, 'pause_failed');
  }
}

/** @returns true when the processes still exist and are frozen */
async function freezeOrStop(state: SandboxState, reason: Pause['reason'], requestedMs: number): Promise<boolean> {
  const freeze = reason !== 'auto_pause' || state.failedAutoPauses < autoPauseTries;
  const { hostId } = state.plan;
  return state.hostLoss.unlessLost(state.scopeOfWork(), async () => {
    if (!freeze) {
      await cleaningOn(hostId).stopSandbox(state.id);
      return false;
    }
    const { kept } = await pausingOn(hostId).pauseSandbox(state.id, reason, requestedMs);
    return kept !== 'disk';
  });
}
