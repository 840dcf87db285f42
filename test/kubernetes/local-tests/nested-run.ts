import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../../..');

/** The module as test files import it. `cluster-host.ts` imports the real one by another path. */
const localHost = '^(\\./|\\.\\./runtime/)local-host\\.ts$';
const clusterHost = '<rootDir>/test/kubernetes/local-tests/cluster-host.ts';

export interface TestResult {
  title: string;
  status: 'passed' | 'failed' | 'left out';
  message: string;
}

/**
 * Runs a test file in another Jest.
 * @param options.leftOut titles of tests that are not run
 * @param options.env for the tests, and for what they start
 * @param options.folder for its report
 */
export async function runTests(
  file: string,
  options: { leftOut: readonly string[]; env: Record<string, string>; folder: string },
): Promise<TestResult[]> {
  const report = path.join(options.folder, 'report.json');
  fs.rmSync(report, { force: true });
  const words = ['ops/development/test.ts', '-w', '1', '--json', '--outputFile', report];
  words.push('--moduleNameMapper', JSON.stringify({ [localHost]: clusterHost }));
  if (options.leftOut.length > 0) words.push('-t', `^(?!(?:${options.leftOut.map(escaped).join('|')})$)`);
  // This Jest's own variables would make the other one a worker of this one, with this one's database and Temporal.
  const { JEST_WORKER_ID: _, TEST_STACK_SOCKET: __, NODE_OPTIONS: ___, ...inherited } = process.env;
  const jest = spawn(process.execPath, [...words, file], {
    cwd: root,
    env: { ...inherited, ...options.env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await once(jest, 'exit');
  const { testResults } = JSON.parse(fs.readFileSync(report, 'utf8'));
  return testResults.flatMap(toResults);
}

function toResults({ message, assertionResults }: FileReport): TestResult[] {
  if (assertionResults.length === 0) return [{ title: '(the file)', status: 'failed', message }];
  return assertionResults.map(({ fullName, status, failureMessages }) => ({
    title: fullName,
    status: status === 'pending' ? 'left out' : status === 'passed' ? 'passed' : 'failed',
    message: failureMessages.join('\n'),
  }));
}

/** What Jest's `--json` says of a file (https://jestjs.io/docs/cli#--json). */
interface FileReport {
  message: string;
  assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
}

const escaped = (title: string) => title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
