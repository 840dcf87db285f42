import { RunningPlatform } from '../support/running-platform.ts';
import { namesOf } from './methods-table.ts';
import { pythonPackages, pythonWith } from './published-packages.ts';
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

/** Runs a program with each version of a package, side by side. */
async function runWith(program: string, name: keyof typeof pythonPackages, kind: (typeof kinds)[number]) {
  const versions = Object.entries(pythonPackages[name]);
  const reports = await Promise.all(
    versions.map(async ([, environment]) =>
      runProgram([await pythonWith(environment), program, kind], settingsFor(platform.env)),
    ),
  );
  for (const [index, [version]] of versions.entries()) {
    for (const method of pythonNames(reports[index]!.called)) called[kind].add(method);
    expectSuccess(`${name} ${version}`, reports[index]!);
  }
}

test.each(kinds)(
  'every version of e2b does here what the page says, %s',
  (kind) => runWith('sdk.py', 'e2b', kind),
  180_000,
);

test.each(kinds)(
  'every version of e2b-code-interpreter runs code in contexts, with results and charts, %s',
  (kind) => runWith('interpreter.py', 'code-interpreter', kind),
  180_000,
);

test.each([
  ['sync', ['input.close', 'input.send']],
  ['async', ['watcher.get_new_events']],
] as const)('the programs call every method that the page calls supported or refused, %s', (kind, ofTheOther) => {
  const expected = namesOf('python', 'yes', 'refused').filter((name) => !name.startsWith('volume.'));
  expect(expected.filter((name) => !called[kind].has(name))).toEqual(ofTheOther);
});
