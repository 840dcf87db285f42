import { RunningPlatform } from '../support/running-platform.ts';
import { namesOf } from './methods-table.ts';
import { type PythonEnvironment, pythonPackages, pythonWith } from './published-packages.ts';
import { expectSuccess, runProgram, settingsFor } from './run-program.ts';
import { pythonNames } from './surfaces.ts';

/** The Python packages against a running platform, on one machine without TLS. */
let platform: RunningPlatform;
beforeAll(async () => {
  platform = await RunningPlatform.shared();
  for (const versions of Object.values(pythonPackages)) {
    for (const environment of Object.values(versions)) await pythonWith(environment);
  }
}, 300_000);
afterAll(() => platform.leave());

const kinds = ['sync', 'async'] as const;
const called = { sync: new Set<string>(), async: new Set<string>() };

type Row = [version: string, kind: (typeof kinds)[number], environment: PythonEnvironment];
const rowsOf = (name: keyof typeof pythonPackages): Row[] =>
  Object.entries(pythonPackages[name]).flatMap(([version, environment]) =>
    kinds.map((kind): Row => [version, kind, environment]),
  );

async function runWith(program: string, [, kind, environment]: Row): Promise<void> {
  const report = await runProgram([await pythonWith(environment), program, kind], settingsFor(platform.env));
  for (const name of pythonNames(report.called)) called[kind].add(name);
  expectSuccess(report);
}

test.each(rowsOf('e2b'))('e2b %s, %s, does here what the page says', (...row) => runWith('sdk.py', row), 180_000);

test.each(rowsOf('code-interpreter'))(
  'e2b-code-interpreter %s, %s, runs code in contexts, with results and charts',
  (...row) => runWith('interpreter.py', row),
  180_000,
);

test.each([
  ['sync', ['input.close', 'input.send']],
  ['async', ['watcher.get_new_events']],
] as const)('the programs call every method that the page calls supported or refused, %s', (kind, ofTheOther) => {
  const expected = namesOf('python', 'yes', 'refused').filter((name) => !name.startsWith('volume.'));
  expect(expected.filter((name) => !called[kind].has(name))).toEqual(ofTheOther);
});
