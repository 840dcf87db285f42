import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { DriverError } from '../driver.ts';
import { nodeWords } from './manifests.ts';
import type { PodCommand } from './pod-command.ts';

/** How long the processes may take to stop, and later to continue. */
const answerMs = 15_000;

/**
 * Runs `act` while the processes of a sandbox are stopped. A script in the sandbox stops them and lets them continue,
 * even if this process ends before. A sandbox that disturbs the script can only damage its own template or make its
 * build fail. It cannot delay the build for long.
 * @param run starts a command in the sandbox
 * @param seconds the longest time for which the script keeps the processes stopped
 * @returns how long the processes were stopped, and the result of `act`
 * @throws {DriverError} `snapshot_failed`
 */
export async function whileFrozen<Result>(
  run: (words: string[]) => Promise<PodCommand>,
  seconds: number,
  act: () => Promise<Result>,
): Promise<{ frozenMs: number; result: Result }> {
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
  // The rest of the output is read and dropped.
  command.output.resume();
  try {
    if (outcome !== 'still') throw notStill(outcome);
    const result = await act();
    return { frozenMs: Math.round(performance.now() - startedMs), result };
  } finally {
    command.writeLine('go on');
    // A script that has ended has already let the processes continue.
    await Promise.race([command.ended.catch(() => {}), sleep(answerMs, undefined, { ref: false })]);
  }
}

const notStill = (outcome: string) =>
  new DriverError('snapshot_failed', 'The processes of the sandbox did not stand still for a copy of its disk', {
    cause: new Error(`the script that stops them: ${outcome}`),
    retryable: true,
  });
