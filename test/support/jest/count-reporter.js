import fs from 'node:fs';
import path from 'node:path';

/**
 * Leaves the numbers of passed and failed tests for `npm test`, and the files with failures. A file that could not be
 * run is a failure, and so is a test that is skipped or left to do: a real part that is missing must not look like
 * success. Tests that a name filter leaves out are not counted.
 */
export default class CountReporter {
  #isFiltered;
  #root;

  constructor(globalConfig) {
    this.#isFiltered = Boolean(globalConfig.testNamePattern);
    this.#root = globalConfig.rootDir;
  }

  onRunComplete(_contexts, results) {
    const file = process.env.TEST_COUNTS_FILE;
    if (!file) return;
    const skipped = this.#isFiltered ? 0 : results.numPendingTests + results.numTodoTests;
    if (skipped > 0) console.error(`${skipped} tests were skipped: that counts as failed`);
    const failedFiles = results.testResults
      .filter((result) => result.numFailingTests > 0 || result.testExecError)
      .map((result) => ({
        file: path.relative(this.#root, result.testFilePath),
        passed: result.numPassingTests,
        failed: result.numFailingTests || 1,
      }));
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites + skipped;
    const files = results.numTotalTestSuites;
    fs.writeFileSync(file, JSON.stringify({ passed: results.numPassedTests, failed, files, failedFiles }));
  }
}
