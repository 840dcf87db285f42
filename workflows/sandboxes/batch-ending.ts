import { continueAsNew, setCurrentDetails } from '@temporalio/workflow';
import type { SandboxId } from '../../domain/ids.ts';
import type { BatchEndingInput } from '../../domain/workflow-registry.ts';
import { endSandbox, isHistoryLong } from './end-sandbox.ts';

/** The number of sandboxes of a batch that are handled at the same time. */
const concurrency = 50;

/**
 * Ends the sandboxes of one accepted batch with a signal to each sandbox's workflow. The caller gets the reply as soon
 * as this workflow is started. The workflow id is `bat-…`.
 */
export async function sandboxBatchEnding(input: BatchEndingInput): Promise<void> {
  const { sandboxIds, forget } = input;
  const waiting = [...sandboxIds];
  const left: SandboxId[] = [];
  let ended = 0;
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      if (isHistoryLong() || !(await endSandbox(id, forget))) left.push(id);
      else ended += 1;
      setCurrentDetails(`${ended} of ${sandboxIds.length} sandboxes have been requested to end`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  if (left.length > 0) await continueAsNew<typeof sandboxBatchEnding>({ ...input, sandboxIds: left });
}
