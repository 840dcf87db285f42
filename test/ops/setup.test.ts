import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { imagesAskedFor } from '../../ops/setup/builtin-images.mjs';
import { agentBundle } from '../../ops/setup/bundles.mjs';
import { npmPackages } from '../../ops/setup/npm-packages.mjs';
import { runMissing } from '../../ops/setup/progress.mjs';

const root = path.resolve(import.meta.dirname, '../..');
let dir: string;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'set-up-test-'));
});

afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

/** Runs the source of a module in a separate process, as set-up does. */
function runModule(source: string, env: NodeJS.ProcessEnv): Promise<{ failed: boolean; output: string }> {
  return new Promise((resolve) => {
    const settings = { ...process.env, NODE_OPTIONS: '', ...env };
    execFile(
      process.execPath,
      ['--input-type=module', '--eval', source],
      { env: settings },
      (error, stdout, stderr) => {
        resolve({ failed: error !== null, output: stdout + stderr });
      },
    );
  });
}

test('finished steps are skipped without output; missing ones run in order and print their time', async () => {
  const ran: string[] = [];
  const lines: string[] = [];
  const log = console.log;
  console.log = (text: string) => lines.push(text);
  try {
    await runMissing([
      { title: 'there', isDone: () => true, run: async () => void ran.push('there') },
      { title: 'first', isDone: () => false, run: async () => void ran.push('first') },
      { title: 'second', expectation: 'a minute', isDone: async () => false, run: async () => void ran.push('second') },
    ]);
  } finally {
    console.log = log;
  }
  expect(ran).toEqual(['first', 'second']);
  expect(lines[0]).toBe('  first …');
  expect(lines[1]).toMatch(/^ {2}first: done in \d+\.\d s$/);
  expect(lines[2]).toBe('  second … (a minute)');
  expect(lines.at(-1)).toMatch(/^ {2}Set-up took /);
});

test('set-up makes the images of templates in --with, and lists those that it can make', async () => {
  const [step, ...others] = imagesAskedFor(root, ['code-interpreter']);
  expect(others).toEqual([]);
  expect(step!.title).toBe('Image of the template code-interpreter');
  // The tests' own set-up has made it.
  expect(await step!.isDone()).toBe(true);
  const words = ['ops/setup/main.mjs', '--for', 'packages', '--with', 'nothing'];
  const refused = await new Promise<string>((resolve) => {
    execFile(process.execPath, words, { cwd: root, env: { ...process.env, NODE_OPTIONS: '' } }, (error, _, stderr) =>
      resolve(`${error?.code} ${stderr}`),
    );
  });
  expect(refused).toMatch(/^1 .*--with nothing: give one of code-interpreter, code-interpreter-all/s);
});

test('packages are installed when node_modules is missing or from another lock file', async () => {
  const lock = (version: string) => JSON.stringify({ packages: { '': {}, 'node_modules/a': { version } } });
  fs.writeFileSync(path.join(dir, 'package-lock.json'), lock('1.0.0'));
  expect(npmPackages(dir).isDone()).toBe(false);
  fs.mkdirSync(path.join(dir, 'node_modules'));
  fs.writeFileSync(path.join(dir, 'node_modules/.package-lock.json'), lock('1.0.0'));
  expect(npmPackages(dir).isDone()).toBe(true);
  fs.writeFileSync(path.join(dir, 'package-lock.json'), lock('1.0.1'));
  expect(npmPackages(dir).isDone()).toBe(false);
});

test('the agent is bundled again when a source of it is newer than the last bundle', async () => {
  const source = path.join(dir, 'agent/process/launch.ts');
  fs.mkdirSync(path.dirname(source), { recursive: true });
  fs.writeFileSync(source, '');
  fs.mkdirSync(path.join(dir, 'node_modules/node/bin'), { recursive: true });
  fs.symlinkSync(process.execPath, path.join(dir, 'node_modules/node/bin/node'));
  const bundled = path.join(dir, 'bundled');
  fs.writeFileSync(
    path.join(dir, 'agent/build.mjs'),
    `import fs from 'node:fs';
    fs.mkdirSync(${JSON.stringify(path.join(dir, 'agent/dist'))}, { recursive: true });
    fs.appendFileSync(${JSON.stringify(bundled)}, 'x');`,
  );
  const step = agentBundle(dir);
  expect(step.isDone()).toBe(false);
  await step.run();
  expect(fs.readFileSync(bundled, 'utf8')).toBe('x');
  expect(step.isDone()).toBe(true);
  const later = new Date(Date.now() + 5000);
  fs.utimesSync(source, later, later);
  expect(step.isDone()).toBe(false);
});

test('without Go, the development server is downloaded, unpacked and kept', async () => {
  fs.writeFileSync(path.join(dir, 'temporal'), '#!/bin/sh\necho downloaded\n', { mode: 0o755 });
  fs.writeFileSync(path.join(dir, 'LICENSE'), '');
  execFileSync('tar', ['-czf', path.join(dir, 'archive.tar.gz'), '-C', dir, 'LICENSE', 'temporal']);
  const asked: string[] = [];
  const mirror = http.createServer((request, response) => {
    asked.push(request.url!);
    response.end(fs.readFileSync(path.join(dir, 'archive.tar.gz')));
  });
  mirror.listen(0, '127.0.0.1');
  await once(mirror, 'listening');
  try {
    const { failed, output } = await runModule(
      `const { downloadDevServer } = await import(${JSON.stringify(path.join(root, 'ops/setup/temporal-dev-server.mjs'))});
       const { temporalDevServer } = await import(${JSON.stringify(path.join(root, 'ops/setup/toolchain/locations.mjs'))});
       await downloadDevServer(${JSON.stringify(root)});
       console.log(temporalDevServer().cli);`,
      {
        PLATFORM_CACHE_DIR: path.join(dir, 'cache'),
        PLATFORM_TEMPORAL_DOWNLOAD: `http://127.0.0.1:${(mirror.address() as AddressInfo).port}`,
      },
    );
    expect({ failed, output }).toMatchObject({ failed: false });
    const program = output.trim().split('\n').at(-1)!;
    expect(execFileSync(program, { encoding: 'utf8' })).toBe('downloaded\n');
    expect(asked).toEqual([expect.stringMatching(/^\/v\d+\.\d+\.\d+\?platform=linux&arch=(amd64|arm64)$/)]);
    expect(fs.readdirSync(path.join(dir, 'cache/toolchain'))).toEqual([path.basename(path.dirname(program))]);
  } finally {
    mirror.close();
  }
});

test('without Go and without the download, set-up prints the reason and a remedy in one line', async () => {
  const { failed, output } = await runModule(
    `const { downloadDevServer } = await import(${JSON.stringify(path.join(root, 'ops/setup/temporal-dev-server.mjs'))});
     await downloadDevServer(${JSON.stringify(root)}).catch((error) => console.log(error.name, error.message));`,
    { PLATFORM_CACHE_DIR: path.join(dir, 'cache'), PLATFORM_TEMPORAL_DOWNLOAD: 'http://nowhere.invalid' },
  );
  expect(failed).toBe(false);
  expect(output).toMatch(
    /^SetupError Temporal could not be downloaded\. http:\/\/nowhere\.invalid\/v\S+: .*nowhere\.invalid\n/m,
  );
  expect(output).toMatch(/Install Go \d\.\d+ or newer/);
  expect(output).not.toContain('node:internal');
  expect(fs.readdirSync(path.join(dir, 'cache/toolchain'))).toEqual([]);
});
