import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * One step of set-up.
 * @typedef {object} Step
 * @property {string} title a name for people, such as "Temporal"
 * @property {string} [expectation] a hint for long steps, such as "about 6 minutes, once"
 * @property {string[]} [needs] titles of earlier steps whose results `isDone` and `run` need
 * @property {{folder: string, mb: number}[]} [disk] the disk space that `run` needs, for the check before the first step
 * @property {() => boolean | Promise<boolean>} isDone must be fast, because it runs at every start
 * @property {() => Promise<void>} run
 */

/** A problem that set-up cannot solve. The message contains instructions. */
export class SetupError extends Error {
  name = 'SetupError';
}

/**
 * The step that the calling code belongs to, and the signal that stops it.
 * @type {AsyncLocalStorage<{title: string, stop: AbortSignal}>}
 */
const current = new AsyncLocalStorage();

/**
 * Prints a line of progress with the name of its step, because several steps run at the same time.
 * @param {string} text
 */
export function report(text) {
  const title = current.getStore()?.title;
  console.log(title ? `  ${title}: ${text}` : `  ${text}`);
}

/** Aborted when set-up stops. Undefined outside of a step. */
export function stopSignal() {
  return current.getStore()?.stop;
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
 * Runs the missing steps, each as soon as those that it needs are done, and reports the name and the duration of each.
 * After a failure or a stop, no further step begins. Steps that run go on after a failure, because their results are
 * kept for the next start.
 * @param {readonly Step[]} steps a step comes after those that it needs
 * @param {AbortSignal} [stop]
 * @throws {SetupError} when steps have failed or were stopped
 */
export async function runMissing(steps, stop = new AbortController().signal) {
  const started = Date.now();
  /** @type {Map<string, Promise<boolean>>} */
  const results = new Map();
  const running = new Set();
  const failures = [];
  let ran = 0;
  const mayBegin = () => failures.length === 0 && !stop.aborted;

  /** @param {Step} step */
  async function finish(step) {
    const needed = await Promise.all((step.needs ?? []).map((title) => results.get(title) ?? true));
    if (needed.includes(false) || !mayBegin()) return false;
    try {
      if (await step.isDone()) return true;
      if (!mayBegin()) return false;
      const stepStarted = Date.now();
      console.log(`  ${step.title} …${step.expectation ? ` (${step.expectation})` : ''}`);
      running.add(step.title);
      ran += 1;
      await step.run();
      report(`done in ${seconds(stepStarted)}`);
      return true;
    } catch (error) {
      running.delete(step.title);
      failures.push(error);
      report(stop.aborted ? 'stopped' : 'failed');
      if (running.size > 0) console.log(`  Still running: ${[...running].join(', ')}. Nothing else begins.`);
      return false;
    } finally {
      running.delete(step.title);
    }
  }

  for (const step of steps) {
    results.set(
      step.title,
      current.run({ title: step.title, stop }, () => finish(step)),
    );
  }
  await Promise.all(results.values());
  if (stop.aborted) throw new SetupError('Set-up was stopped. The next start goes on from here.');
  const unexpected = failures.find((error) => !(error instanceof SetupError));
  if (unexpected) throw unexpected;
  if (failures.length > 0) throw new SetupError(failures.map((error) => error.message).join('\n\n'));
  if (ran > 0) console.log(`  Set-up took ${seconds(started)}`);
}
