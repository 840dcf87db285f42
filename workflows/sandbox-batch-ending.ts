import { setCurrentDetails } from '@temporalio/workflow';
import type { BatchEndingInput } from '../domain/workflow-registry.ts';
import { endSandbox } from './end-sandbox.ts';

/** The number of sandboxes of a batch that are handled at the same time. */
const concurrency = 50;

/**
 * Ends the sandboxes of one accepted batch with a signal to each sandbox's workflow. The caller gets the reply as soon
 * as this workflow is started. The workflow id is `bat-…`.
 */
export async function sandboxBatchEnding({ sandboxIds, forget }: BatchEndingInput): Promise<void> {
  const waiting = [...sandboxIds];
  let ended = 0;
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      await endSandbox(id, forget);
      ended += 1;
      setCurrentDetails(`${ended} of ${sandboxIds.length} sandboxes have been requested to end`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}
