import { CancellationScope, condition, isCancellation } from '@temporalio/workflow';
import type { StartedPlace } from '../../../activities/sandboxes/starts.ts';
import type { SandboxReason } from '../../../domain/sandboxes/state.ts';
import { cleaningOn, rows, startingOn } from './activities.ts';
import { fail } from './ending.ts';
import { type HostFailure, isNoLife, neverStarted, readExit, readHostFailure } from './failure.ts';
import { HostLostError, hostLostFailure } from './host-reports.ts';
import type { SandboxState } from './state.ts';

/** How long a start waits for the credentials of its mounts. The API gives up sending them earlier. */
const credentialsTimeoutMs = 90_000;
/** The number of times that a start moves to another host because a disk is full. */
const maxFullHosts = 3;

/**
 * Starts the sandbox, on another host if the first is lost or full. Ends when it runs, has failed or is about to end.
 */
export async function start(state: SandboxState): Promise<'started' | 'nothing to start'> {
  if (state.awaitsCredentials && !(await receiveCredentials(state))) return 'started';
  let fullHosts = 0;
  while (state.status === 'starting' && !state.isEnding()) {
    try {
      const scope = state.scopeOfWork();
      const run = state.nextAttempt();
      const startThere = () => startingOn(state.plan.hostId).startSandbox(state.id, state.sealedCredentials, run);
      await enterRunning(state, await state.hostLoss.unlessLost(scope, startThere), run);
    } catch (error) {
      if (isCancellation(error) && state.isEnding()) return 'started';
      if (isNoLife(error)) return 'nothing to start';
      if (error instanceof HostLostError || neverStarted(error)) {
        await moveToAnotherHost(state);
        continue;
      }
      const failure = readHostFailure(error, 'start_failed');
      if (failure.reason === 'host_disk_full' && fullHosts < maxFullHosts) {
        fullHosts += 1;
        await leaveFullHost(state, failure);
      } else await fail(state, failure);
    } finally {
      state.cancellableWork = null;
    }
  }
  state.sealedCredentials = null;
  return 'started';
}

/**
 * Records that the sandbox runs, unless a direct start has done that. All other times of a sandbox come from the
 * workflow's clock and never from a host's, so that deadlines and totals agree even if the clocks of machines differ.
 */
export async function enterRunning(
  state: SandboxState,
  { runningSinceMs, ...place }: StartedPlace,
  run: number,
  reason: SandboxReason = 'user_requested',
): Promise<void> {
  const atMs = runningSinceMs ?? Date.now();
  if (runningSinceMs === undefined) await rows.recordRunning(state.id, place, atMs);
  state.enterRunning(atMs, run, reason);
}

/**
 * Waits for the credentials from the caller of the create: only that caller has them. @returns false when none arrived
 * and the sandbox has failed
 */
async function receiveCredentials(state: SandboxState): Promise<boolean> {
  const received = () => state.sealedCredentials !== null || state.isEnding();
  if (await condition(received, credentialsTimeoutMs, { summary: 'credentials of the object storage' })) return true;
  const message = 'The credentials of its object storage did not arrive';
  await fail(state, { reason: 'object_storage_credentials_required', failure: { message, ...readExit(undefined) } });
  return false;
}

/** Leaves a host with a full disk, which is not an unhealthy host: cleans up there, then starts on another host. */
async function leaveFullHost(state: SandboxState, failure: HostFailure): Promise<void> {
  const remove = () => cleaningOn(state.plan.hostId).removeSandbox(state.id);
  try {
    await state.hostLoss.unlessLost(new CancellationScope(), remove);
  } catch {
    // Remains on this host would collide with a later start there. `fail` cleans up the failed sandbox again.
    return await fail(state, failure);
  }
  await moveToAnotherHost(state, failure);
}

/** @param otherwise the failure of the sandbox when no other host has capacity */
async function moveToAnotherHost(state: SandboxState, otherwise?: HostFailure): Promise<void> {
  try {
    const { running, ...place } = await rows.placeAgain(state.id);
    // A direct start was faster. If its host is lost, the sandbox fails next.
    if (running) return state.enterRunning(running.sinceMs, running.run, 'user_requested');
    Object.assign(state.plan, place);
    state.hostLoss.reset();
    state.publish();
  } catch (error) {
    const lost = state.hostLoss.happened ? hostLostFailure : null;
    await fail(state, otherwise ?? lost ?? readHostFailure(error, 'no_capacity'));
  }
}
