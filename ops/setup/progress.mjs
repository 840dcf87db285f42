/**
 * One step of set-up.
 * @typedef {object} Step
 * @property {string} title a name for people, such as "Temporal"
 * @property {string} [expectation] a hint for long steps, such as "about 6 minutes, once"
 * @property {() => boolean | Promise<boolean>} isDone must be fast, because it runs at every start
 * @property {() => Promise<void>} run
 */

/** A problem that set-up cannot solve. The message contains instructions. */
export class SetupError extends Error {
  name = 'SetupError';
}

/**
 * The time since then, as text for people.
 * @param {number} startedMs
 */
export function seconds(startedMs) {
  const elapsed = (Date.now() - startedMs) / 1000;
  return elapsed < 100 ? `${elapsed.toFixed(1)} s` : `${Math.floor(elapsed / 60)} min ${Math.floor(elapsed % 60)} s`;
}

/**
 * Runs the missing steps in order, and reports the name and the duration of each.
 * @param {readonly Step[]} steps
 */
export async function runMissing(steps) {
  const started = Date.now();
  let ran = 0;
  for (const step of steps) {
    if (await step.isDone()) continue;
    const stepStarted = Date.now();
    console.log(`  ${step.title} …${step.expectation ? ` (${step.expectation})` : ''}`);
    await step.run();
    console.log(`  ${step.title}: done in ${seconds(stepStarted)}`);
    ran += 1;
  }
  if (ran > 0) console.log(`  Set-up took ${seconds(started)}`);
}
