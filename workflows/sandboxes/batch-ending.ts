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
  const { accountId, sandboxIds, forget } = input;
  const waiting = [...sandboxIds];
  const left: SandboxId[] = [];
  let ended = 0;
  const work = async () => {
    for (let sandboxId = waiting.shift(); sandboxId !== undefined; sandboxId = waiting.shift()) {
      if (isHistoryLong() || !(await endSandbox({ accountId, sandboxId, forget }))) left.push(sandboxId);
      else ended += 1;
      setCurrentDetails(`${ended} of ${sandboxIds.length} sandboxes have been requested to end`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  if (left.length > 0) await continueAsNew<typeof sandboxBatchEnding>({ ...input, sandboxIds: left });
}
