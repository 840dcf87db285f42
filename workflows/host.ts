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
import type { BoundSandbox, HostWatchActivities } from '../activities/host-watch.ts';
import type { HostInput } from '../domain/workflow-registry.ts';
import { searchAttributes } from '../temporal/search-attributes.ts';
import { database, watch } from './activity-profiles.ts';
import { hostLostSignal } from './sandbox/messages.ts';

const watching = proxyActivities<Pick<HostWatchActivities, 'watchUntilLost' | 'watchUntilBack'>>(watch);
const { sandboxesBoundTo } = proxyLocalActivities<Pick<HostWatchActivities, 'sandboxesBoundTo'>>(database);

/** The number of sandboxes signalled in one round. */
const batchSize = 200;

/**
 * Watches the lease of a machine that runs sandboxes. When the lease is lost, the workflow signals each sandbox with
 * processes on the machine until none is left. Then the machine may come back. The workflow id is the host's id.
 */
export async function host({ hostId }: HostInput): Promise<void> {
  upsertSearchAttributes([{ key: searchAttributes.hostId, value: hostId }]);
  while (!workflowInfo().continueAsNewSuggested) {
    setCurrentDetails('present; its lease is watched');
    await watching.watchUntilLost(hostId);
    await signalLoss(hostId);
    setCurrentDetails('lost; its return is watched for');
    await watching.watchUntilBack(hostId);
  }
  await continueAsNew<typeof host>({ hostId });
}

async function signalLoss(hostId: string): Promise<void> {
  for (let pauseSeconds = 1; ; pauseSeconds = Math.min(pauseSeconds * 2, 60)) {
    const bound: readonly (BoundSandbox | string)[] = await sandboxesBoundTo(hostId);
    if (bound.length === 0) return;
    setCurrentDetails(`lost; ${bound.length} sandboxes had processes on it`);
    const signals = bound.slice(0, batchSize).map((each) => {
      // Histories of earlier versions have ids only.
      const { sandboxId, run } = typeof each === 'string' ? { sandboxId: each, run: null } : each;
      return getExternalWorkflowHandle(sandboxId).signal(hostLostSignal, { hostId, run });
    });
    // A workflow that has just closed refuses the signal. The next round signals the remaining sandboxes.
    const failed = (await Promise.allSettled(signals)).some((each) => each.status === 'rejected');
    if (failed || bound.length <= batchSize) await sleep(`${pauseSeconds}s`, { summary: 'next round of signals' });
    else pauseSeconds = 0.5;
  }
}
