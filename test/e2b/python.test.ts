import { RunningPlatform } from '../support/running-platform.ts';
import { namesOf } from './methods-table.ts';
import { pythonVersions, pythonWith } from './published-packages.ts';
import { expectSuccess, runProgram, settingsFor } from './run-program.ts';
import { pythonNames } from './surfaces.ts';

/** The Python packages against a running platform, on one machine without TLS. */
let platform: RunningPlatform;
const interpreters = new Map<string, string>();
beforeAll(async () => {
  platform = await RunningPlatform.shared();
  for (const [version] of pythonVersions) interpreters.set(version, await pythonWith(version));
}, 300_000);
afterAll(() => platform.leave());

const called = new Map<string, Set<string>>();

async function runWith(program: string, version: string, kind: string): Promise<void> {
  const report = await runProgram([interpreters.get(version)!, program, kind], settingsFor(platform.env));
  const before = called.get(`${version} ${kind}`) ?? [];
  called.set(`${version} ${kind}`, new Set([...before, ...pythonNames(report.called)]));
  expectSuccess(report);
}

const all = pythonVersions.flatMap(([e2b, interpreter]) => ['sync', 'async'].map((kind) => [e2b, interpreter, kind]));

test.each(all)(
  'e2b %s (%s), %s, does here what the page says',
  (version, _interpreter, kind) => runWith('sdk.py', version!, kind!),
  180_000,
);

test.each(all)(
  'e2b %s with e2b-code-interpreter %s, %s, runs code in contexts, with results and charts',
  (version, _interpreter, kind) => runWith('interpreter.py', version!, kind!),
  180_000,
);

test('the programs call every method that the page calls supported or refused', () => {
  const expected = namesOf('python', 'yes', 'refused').filter((name) => !name.startsWith('volume.'));
  for (const [version, , kind] of all) {
    const missing = expected.filter((name) => !called.get(`${version} ${kind}`)?.has(name));
    const onlyOther = kind === 'sync' ? ['input.close', 'input.send'] : ['watcher.get_new_events'];
    expect([version, kind, missing]).toEqual([version, kind, onlyOther]);
  }
});
