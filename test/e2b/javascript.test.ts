import { RunningPlatform } from '../support/running-platform.ts';
import { namesOf } from './methods-table.ts';
import { npmPackages } from './published-packages.ts';
import { expectSuccess, type Report, runProgram, settingsFor } from './run-program.ts';

/** The npm packages against a running platform, on one machine without TLS. */
let platform: RunningPlatform;
beforeAll(async () => {
  platform = await RunningPlatform.shared();
}, 300_000);
afterAll(() => platform.leave());

const called = new Map<string, Set<string>>();

async function runWith(program: string, packageName: string, version: string): Promise<void> {
  const env = { ...settingsFor(platform.env), E2B_PACKAGE: packageName };
  const report: Report = await runProgram([process.execPath, program], env);
  called.set(version, new Set([...(called.get(version) ?? []), ...report.called]));
  expectSuccess(report);
}

test.each(Object.entries(npmPackages.e2b))(
  'e2b %s does here what the page says',
  (version, name) => runWith('sdk.ts', name, version),
  180_000,
);

test.each(Object.entries(npmPackages['code-interpreter']))(
  '@e2b/code-interpreter %s runs code in contexts, with results and charts',
  (version, name) => runWith('interpreter.ts', name, version),
  180_000,
);

test('the programs call every method that the page calls supported or refused', () => {
  const versions = Object.values(npmPackages).map((packages) => Object.keys(packages));
  for (let age = 0; age < 3; age += 1) {
    const both = new Set(versions.slice(0, 2).flatMap((each) => [...(called.get(each[age]!) ?? [])]));
    expect(namesOf('javaScript', 'yes', 'refused').filter((name) => !both.has(name) && !needsVolume(name))).toEqual([]);
  }
});

/** Methods of a volume, which nobody can create. */
const needsVolume = (name: string) => name.startsWith('volume.');
