/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // A bound against hanging, not on speed: other programs may keep the machine busy.
  testTimeout: 120_000,
  modulePathIgnorePatterns: ['<rootDir>/.data', '<rootDir>/agent/dist'],
  setupFilesAfterEnv: ['<rootDir>/test/support/must-assert.ts'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  maxWorkers: 2,
  reporters: ['default', '<rootDir>/test/support/count-reporter.js'],
};
