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

async function runWith(program: string, packageName: string): Promise<void> {
  const env = { ...settingsFor(platform.env), E2B_PACKAGE: packageName };
  const report = await runProgram([process.execPath, program], env);
  for (const name of report.called) called.add(name);
  expectSuccess(report);
}

test.each(Object.entries(npmPackages.e2b))(
  'e2b %s does here what the page says',
  (_version, name) => runWith('sdk.ts', name),
  180_000,
);

// Version 2.6 does not know E2B_SANDBOX_URL: tls.test.ts runs it.
const interpreters = Object.entries(npmPackages['code-interpreter']).filter(([version]) => !version.startsWith('2.6.'));
test.each(interpreters)(
  '@e2b/code-interpreter %s runs code in contexts, with results and charts',
  (_version, name) => runWith('interpreter.ts', name),
  180_000,
);

test('the programs call every method that the page calls supported or refused', () => {
  const expected = namesOf('javaScript', 'yes', 'refused').filter((name) => !name.startsWith('volume.'));
  expect(expected.filter((name) => !called.has(name))).toEqual([]);
});
