/**
 * One thing that set-up sees to.
 * @typedef {object} Step
 * @property {string} title as people read it: "Temporal"
 * @property {string} [expectation] what to expect of a long one: "about 6 minutes, once"
 * @property {() => boolean | Promise<boolean>} isDone quick: it is asked at every start
 * @property {() => Promise<void>} run
 */

/** A state that set-up cannot put right by itself; the text says what to do. */
export class SetupError extends Error {
  name = 'SetupError';
}

/**
 * Time since then, as people read it.
 * @param {number} startedMs
 */
export function seconds(startedMs) {
  const elapsed = (Date.now() - startedMs) / 1000;
  return elapsed < 100 ? `${elapsed.toFixed(1)} s` : `${Math.floor(elapsed / 60)} min ${Math.floor(elapsed % 60)} s`;
}

/**
 * Runs the steps that are not done, in order, and says what each does and how long it took.
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
