/** @type {import('jest').Config} */
export default {
  testEnvironment: '<rootDir>/test/support/jest/environment.cjs',
  runtime: '<rootDir>/test/support/jest/native-runtime.cjs',
  testSequencer: '<rootDir>/test/support/jest/sequencer.cjs',
  transform: {},
  roots: ['<rootDir>/test'],
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // A bound against hanging, not on speed: other programs may keep the machine busy.
  testTimeout: 300_000,
  // Otherwise Jest reports a rejection as unhandled when a test handles it in its last turn of the event loop.
  waitForUnhandledRejections: true,
  modulePathIgnorePatterns: ['<rootDir>/.data', '<rootDir>/agent/dist'],
  setupFilesAfterEnv: ['<rootDir>/test/support/jest/must-assert.ts'],
  globalSetup: '<rootDir>/test/support/jest/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/jest/global-teardown.ts',
  // More than the processors, because tests wait for programs.
  maxWorkers: 4,
  // A worker that has grown is replaced between two files: its garbage collection and each of its forks would cost more
  // than loading the modules again.
  workerIdleMemoryLimit: '1GB',
  // Jest gives a worker half a second to end, in which a busy machine does not free its memory. One that takes longer
  // than this has something open that a test has left.
  workerGracefulExitTimeout: 20_000,
  reporters: ['default', '<rootDir>/test/support/jest/count-reporter.js'],
};
