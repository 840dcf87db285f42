import {
  continueAsNew,
  getExternalWorkflowHandle,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { BoundSandbox, HostWatchActivities } from '../../activities/hosts/host-watch.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { HostInput, LossProgress } from '../../domain/workflow-registry.ts';
import { searchAttributes } from '../../platform/temporal/search-attributes.ts';
import { database, watch } from '../activity-profiles.ts';
import { hostLostSignal } from '../sandboxes/life/messages.ts';

const watching = proxyActivities<Pick<HostWatchActivities, 'watchUntilLost' | 'watchUntilBack'>>(watch);
const { sandboxesBoundTo } = proxyLocalActivities<Pick<HostWatchActivities, 'sandboxesBoundTo'>>(database);

/** The number of sandboxes signalled at once. */
const pageSize = 200;
const longestPauseSeconds = 60;
/** The number of rounds in which one run of this workflow signals the same sandbox. */
const maxSignals = 8;

/**
 * Watches the lease of a machine that runs sandboxes. When the lease is lost, the workflow signals each sandbox with
 * processes on the machine until none is left. Then the machine may come back. The workflow id is the host's id.
 */
export async function host({ hostId, loss }: HostInput): Promise<void> {
  upsertSearchAttributes([{ key: searchAttributes.hostId, value: hostId }]);
  let carried = loss;
  while (!workflowInfo().continueAsNewSuggested || carried) {
    if (!carried) {
      setCurrentDetails('present; its lease is watched');
      await watching.watchUntilLost(hostId);
    }
    await signalLoss(hostId, carried ?? { after: null, pauseSeconds: 1 });
    carried = undefined;
    setCurrentDetails('lost; its return is watched for');
    await watching.watchUntilBack(hostId);
  }
  await continueAsNew<typeof host>({ hostId });
}

/**
 * Signals the sandboxes page by page, and begins again until no sandbox is left. So a sandbox that stays delays no
 * other. A long history continues in the next run, at the same place.
 */
async function signalLoss(hostId: string, { after, pauseSeconds }: LossProgress): Promise<void> {
  const signalled = new Map<string, number>();
  for (;;) {
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof host>({ hostId, loss: { after, pauseSeconds } });
    }
    const bound: readonly BoundSandbox[] = await sandboxesBoundTo(hostId, { after, limit: pageSize });
    if (bound.length === 0 && after === null) return;
    setCurrentDetails(
      `lost; ${bound.length}${bound.length === pageSize ? ' or more' : ''} sandboxes had processes on it`,
    );
    const signals = bound.filter(isToBeSignalled).map(({ sandboxId, run }) => signalTo(sandboxId, hostId, run));
    // A workflow that has just closed refuses the signal. The next round finds its row changed.
    await Promise.allSettled(signals);
    after = bound.length === pageSize ? bound.at(-1)!.sandboxId : null;
    if (after !== null) continue;
    await sleep(`${pauseSeconds}s`, { summary: 'next round of signals' });
    pauseSeconds = Math.min(pauseSeconds * 2, longestPauseSeconds);
  }

  /** A workflow that has got the signal often enough and does not act on it needs a person, and not more signals. */
  function isToBeSignalled({ sandboxId, run }: BoundSandbox): boolean {
    const key = `${sandboxId} ${run}`;
    const times = (signalled.get(key) ?? 0) + 1;
    signalled.set(key, times);
    return times <= maxSignals;
  }
}

function signalTo(sandboxId: SandboxId, hostId: string, run: number | null): Promise<void> {
  return getExternalWorkflowHandle(sandboxId).signal(hostLostSignal, { hostId, run });
}
