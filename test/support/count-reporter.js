import fs from 'node:fs';

/**
 * Leaves the numbers of passed and failed tests for `npm test`. A file that could not be run is a failure, and so is a
 * test that is skipped or left to do: a real part that is missing must not look like success. Tests that a name filter
 * leaves out are not counted.
 */
export default class CountReporter {
  #isFiltered;

  constructor(globalConfig) {
    this.#isFiltered = Boolean(globalConfig.testNamePattern);
  }

  onRunComplete(_contexts, results) {
    const file = process.env.TEST_COUNTS_FILE;
    if (!file) return;
    const skipped = this.#isFiltered ? 0 : results.numPendingTests + results.numTodoTests;
    if (skipped > 0) console.error(`${skipped} tests were skipped: that counts as failed`);
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites + skipped;
    fs.writeFileSync(file, JSON.stringify({ passed: results.numPassedTests, failed }));
  }
}
