import {
  continueAsNew,
  getExternalWorkflowHandle,
  proxyActivities,
  proxyLocalActivities,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { BoundSandbox, HostWatchActivities } from '../activities/host-watch.ts';
import { searchAttributes } from '../temporal/search-attributes.ts';
import { hostLostSignal } from './sandbox/messages.ts';

export interface HostInput {
  hostId: string;
}

const watching = proxyActivities<Pick<HostWatchActivities, 'watchUntilLost' | 'watchUntilBack'>>({
  startToCloseTimeout: '3650 days',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '500ms', maximumInterval: '2s' },
});
const { sandboxesBoundTo } = proxyLocalActivities<Pick<HostWatchActivities, 'sandboxesBoundTo'>>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '10s' },
});

/** Told at once; the rest of them in the next round. */
const batchSize = 200;

/**
 * The lease of a machine that runs sandboxes. When it is lost, each sandbox that counted on it is told, until none does;
 * the machine then may come back. Workflow id: the host's.
 */
export async function host({ hostId }: HostInput): Promise<void> {
  upsertSearchAttributes([{ key: searchAttributes.hostId, value: hostId }]);
  while (!workflowInfo().continueAsNewSuggested) {
    await watching.watchUntilLost(hostId);
    await tellLoss(hostId);
    await watching.watchUntilBack(hostId);
  }
  await continueAsNew<typeof host>({ hostId });
}

async function tellLoss(hostId: string): Promise<void> {
  for (let pauseSeconds = 1; ; pauseSeconds = Math.min(pauseSeconds * 2, 60)) {
    const bound: readonly (BoundSandbox | string)[] = await sandboxesBoundTo(hostId);
    if (bound.length === 0) return;
    const told = bound.slice(0, batchSize).map((each) => {
      // The list was of ids alone in earlier versions.
      const { sandboxId, run } = typeof each === 'string' ? { sandboxId: each, run: null } : each;
      return getExternalWorkflowHandle(sandboxId).signal(hostLostSignal, { hostId, run });
    });
    // One whose workflow is over in this moment cannot be told; if it is not, it is told in the next round.
    const failed = (await Promise.allSettled(told)).some((each) => each.status === 'rejected');
    if (failed || bound.length <= batchSize) await sleep(`${pauseSeconds}s`);
    else pauseSeconds = 0.5;
  }
}
