import fs from 'node:fs';
import path from 'node:path';
import { programsFor } from '../../platform/config/programs.mjs';
import { BareDebian } from './bare-debian.ts';

const repository = path.resolve(import.meta.dirname, '../..');
let debian: BareDebian;

beforeAll(async () => {
  debian = await BareDebian.make(['ops', 'platform', 'runtime']);
}, 120_000);

afterAll(() => debian?.remove());

const runModule = (source: string) => ['node', '--input-type=module', '--eval', source] as const;

/** Asks the driver in the tree whether it can run there. */
const askDriver = () =>
  debian.run(
    ...runModule(
      `const { requirePrerequisites } = await import('./runtime/oci/prerequisites.ts');
       try { requirePrerequisites(); console.log('nothing is missing'); } catch (error) { console.log(error.message); }`,
    ),
  );

const installPackages = runModule(
  `const { systemPackages } = await import('./ops/setup/system-packages.mjs');
   await systemPackages('start').run();`,
);

test('a user who is not root gets the command that installs the packages', async () => {
  const { failed, output } = await debian.run('setpriv', '--reuid=1000', '--clear-groups', ...installPackages);
  expect(failed).toBe(true);
  expect(output).toMatch(
    /Run as root:\s+apt-get update && apt-get install --yes --no-install-recommends .*\bskopeo zstd\n/,
  );
});

test('set-up reports at once that it needs root', async () => {
  const setUp = ['node', 'ops/setup/main.mjs', '--for', 'start'];
  const { failed, output } = await debian.run('setpriv', '--reuid=1000', '--clear-groups', ...setUp);
  expect(failed).toBe(true);
  expect(output).toMatch(
    /^\nThe platform cannot run on this machine yet\. Nothing was installed\.\n {2}- Sandboxes need root\./,
  );
});

test('the checks before the set-up need none of its packages, and find what this root lacks', async () => {
  const setUp = ['node', 'ops/setup/main.mjs', '--for', 'start'];
  const device = path.join(debian.root, 'dev/loop-control');
  fs.renameSync(device, `${device}.away`);
  try {
    const { failed, output } = await debian.run(...(setUp as [string]));
    expect(failed).toBe(true);
    expect(output).toMatch(/Nothing was installed\.\n {2}- .*\/dev\/loop-control is missing/);
    expect(output).not.toMatch(/npm packages|node:internal/);
  } finally {
    fs.renameSync(`${device}.away`, device);
  }
});

test("set-up's packages are sufficient for the driver on a bare Debian", async () => {
  const before = await askDriver();
  expect(before.output).toMatch(/^programs are missing: apt-get update && apt-get install .*\bpatchelf\b/m);

  expect(await debian.run(...installPackages)).toMatchObject({ failed: false });
  expect(await askDriver()).toEqual({ failed: false, output: 'nothing is missing\n' });

  const programs = Object.keys(programsFor('start')).filter((name) => !name.includes('.so.'));
  expect(programs.length).toBeGreaterThan(20);
  // A root shell of `su -`, whose PATH has the system's folders.
  const look =
    'PATH=$PATH:/usr/sbin:/sbin; for names; do found=; for name in $(echo "$names" | tr "|" " "); do command -v "$name" >/dev/null || test -e $name && found=1; done; test $found || echo "$names"; done';
  expect(await debian.run('sh', '-c', look, 'sh', ...programs)).toEqual({ failed: false, output: '' });

  // Programs such as Python and Node reach sandboxes by their names.
  const named = await debian.run('getent', 'ahosts', 'sbx-1.sandbox.localhost');
  expect(named.output).toContain('127.0.0.1');

  const scripts = fs
    .readdirSync(path.join(repository, 'runtime'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.pl'));
  expect(scripts.length).toBeGreaterThan(3);
  for (const script of scripts) {
    const { output } = await debian.run('perl', '-c', `runtime/${script}`);
    expect(output).toBe(`runtime/${script} syntax OK\n`);
  }
}, 300_000);
