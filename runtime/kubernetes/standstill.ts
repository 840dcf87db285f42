import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { DriverError } from '../driver.ts';
import { nodeWords } from './manifests.ts';
import type { PodCommand } from './pod-command.ts';

/** How long the processes may take to stop, and to go on. */
const answerMs = 15_000;

/**
 * Does something while the processes of a sandbox are stopped. They go on also when this process ends: a script in the
 * sandbox sees to it. A sandbox that works against it harms the sandbox's own template alone, and cannot hold up the work.
 * @param run starts a command in the sandbox
 * @returns how long they stood still, with what was done
 * @throws {DriverError} `snapshot_failed`
 */
export async function duringStandstill<Result>(
  run: (words: string[]) => Promise<PodCommand>,
  seconds: number,
  act: () => Promise<Result>,
): Promise<{ standstillMs: number; result: Result }> {
  const command = await run(nodeWords(['stand-still.cjs', `${seconds}`]));
  const startedMs = performance.now();
  const outcome = await Promise.race([
    once(command.output, 'data').then(
      () => 'still' as const,
      () => 'ended' as const,
    ),
    command.ended.then(
      () => 'ended' as const,
      () => 'ended' as const,
    ),
    sleep(answerMs, 'late' as const, { ref: false }),
  ]);
  // Nothing else that it writes is of interest.
  command.output.resume();
  try {
    if (outcome !== 'still') throw notStill(outcome);
    const result = await act();
    return { standstillMs: Math.round(performance.now() - startedMs), result };
  } finally {
    command.tell('go on');
    // A script that has ended has let them go on before.
    await Promise.race([command.ended.catch(() => {}), sleep(answerMs, undefined, { ref: false })]);
  }
}

const notStill = (outcome: string) =>
  new DriverError('snapshot_failed', 'The processes of the sandbox did not stand still for a copy of its disk', {
    cause: new Error(`the script that stops them: ${outcome}`),
    retryable: true,
  });
