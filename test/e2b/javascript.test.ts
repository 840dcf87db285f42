import { RunningPlatform } from '../support/running-platform.ts';
import { namesOf } from './methods-table.ts';
import { npmPackages } from './published-packages.ts';
import { expectSuccess, runProgram, settingsFor } from './run-program.ts';

/** The npm packages against a running platform, on one machine without TLS. */
let platform: RunningPlatform;
beforeAll(async () => {
  platform = await RunningPlatform.shared();
}, 300_000);
afterAll(() => platform.leave());

const called = new Set<string>();

/** Runs a program with packages, side by side. */
async function runWith(program: string, packageNames: string[]): Promise<void> {
  const settings = settingsFor(platform.env);
  const reports = await Promise.all(
    packageNames.map((name) => runProgram([process.execPath, program], { ...settings, E2B_PACKAGE: name })),
  );
  for (const [index, name] of packageNames.entries()) {
    for (const method of reports[index]!.called) called.add(method);
    expectSuccess(name, reports[index]!);
  }
}

test(
  'every version of e2b does here what the page says',
  () => runWith('sdk.ts', Object.values(npmPackages.e2b)),
  180_000,
);

test('every version of @e2b/code-interpreter runs code in contexts, with results and charts', () => {
  // Version 2.6 does not know E2B_SANDBOX_URL: tls.test.ts runs it.
  const known = Object.entries(npmPackages['code-interpreter']).filter(([version]) => !version.startsWith('2.6.'));
  return runWith(
    'interpreter.ts',
    known.map(([, name]) => name),
  );
}, 180_000);

test('the programs call every method that the page calls supported or refused', () => {
  const expected = namesOf('javaScript', 'yes', 'refused').filter((name) => !name.startsWith('volume.'));
  expect(expected.filter((name) => !called.has(name))).toEqual([]);
});
