import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RunningPlatform } from '../../support/running-platform.ts';
import { readPrograms } from '../packed-client.ts';
import { PythonWithAdapter } from './python-with-adapter.ts';

/** Harbor needs Python 3.12, which is newer than that of Debian 12. */
const interpreter = newPython();
const testWithPython = interpreter ? test : test.skip;

let platform: RunningPlatform;
let python: PythonWithAdapter;

beforeAll(async () => {
  if (!interpreter) return;
  const making = PythonWithAdapter.make('harbor', ['harbor==0.26.0'], interpreter);
  [python, platform] = await Promise.all([making, RunningPlatform.shared()]);
}, 900_000);

afterAll(async () => {
  python?.remove();
  await platform?.leave();
}, 300_000);

const environment = () => {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  return { PLATFORM_URL, PLATFORM_API_KEY, HARBOR_TELEMETRY: '0' };
};

testWithPython(
  'the environment starts, runs commands, copies files and stops (needs Python 3.12)',
  async () => {
    expect(await python.runPytest('harbor_checks.py', environment())).toBe('5 passed');
  },
  300_000,
);

testWithPython(
  'the runner of Harbor solves and verifies the task of the README (needs Python 3.12)',
  async () => {
    const task = readPrograms('clients/integrations/harbor/README.md', 'sh').find(
      ({ heading }) => heading === 'A task',
    );
    const printed = await python.runShell(task!.source, environment());
    expect(printed).toMatch(/Mean: 1\.000/);
    const [result] = fs.globSync('jobs/*/result.json', { cwd: python.dir });
    expect(JSON.parse(fs.readFileSync(path.join(python.dir, result!), 'utf8'))).toMatchObject({
      n_total_trials: 1,
      stats: { n_errored_trials: 0 },
    });
  },
  300_000,
);

/** @returns a Python that is new enough, or null */
function newPython(): string | null {
  const pyenv = process.env.PYENV_ROOT ?? path.join(os.homedir(), '.pyenv');
  const candidates = [
    'python3',
    'python3.14',
    'python3.13',
    'python3.12',
    ...fs.globSync(`${pyenv}/versions/3.1[2-9].*/bin/python3`),
  ];
  const isNew = 'import sys, ensurepip; sys.exit(sys.version_info < (3, 12))';
  return (
    candidates.find((each) => {
      try {
        execFileSync(each, ['-c', isNew], { stdio: 'ignore' });
        return true;
      } catch {
        return false;
      }
    }) ?? null
  );
}
