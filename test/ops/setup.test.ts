import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { imagesAskedFor } from '../../ops/setup/builtin-images.mjs';
import { agentBundle } from '../../ops/setup/bundles.mjs';
import { runCommand } from '../../ops/setup/command.mjs';
import { npmPackages } from '../../ops/setup/npm-packages.mjs';
import { report, runMissing, SetupError, type Step } from '../../ops/setup/progress.mjs';
import { readIfThere } from '../support/read-if-there.ts';
import { TestCa } from '../support/test-ca.ts';
import { until } from '../support/until.ts';

const repository = path.resolve(import.meta.dirname, '../..');
let dir: string;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'set-up-test-'));
});

afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

/** Runs steps and collects the printed lines. */
async function runSteps(steps: readonly Step[], stop?: AbortSignal): Promise<{ lines: string[]; error: unknown }> {
  const lines: string[] = [];
  const log = console.log;
  console.log = (text: string) => lines.push(text);
  try {
    await runMissing(steps, stop);
    return { lines, error: null };
  } catch (error) {
    return { lines, error };
  } finally {
    console.log = log;
  }
}

const missing = (title: string, run: () => Promise<void>, more: Partial<Step> = {}): Step => ({
  title,
  isDone: () => false,
  run,
  ...more,
});

test('finished steps are skipped without output; missing ones print their name and time', async () => {
  const ran: string[] = [];
  const { lines } = await runSteps([
    missing('there', async () => void ran.push('there'), { isDone: () => true }),
    missing('first', async () => void ran.push('first')),
    missing('second', async () => void ran.push('second'), {
      needs: ['first'],
      isDone: async () => false,
      expectation: 'a minute',
    }),
  ]);
  expect(ran).toEqual(['first', 'second']);
  expect(lines[0]).toBe('  first …');
  expect(lines[1]).toMatch(/^ {2}first: done in \d+\.\d s$/);
  expect(lines[2]).toBe('  second … (a minute)');
  expect(lines.at(-1)).toMatch(/^ {2}Set-up took /);
});

test('independent steps run at the same time, each line names its step, and a step waits for those that it needs', async () => {
  const order: string[] = [];
  const bothRun = Promise.withResolvers<void>();
  let count = 0;
  const meet = (title: string) => async () => {
    count += 1;
    if (count === 2) bothRun.resolve();
    await bothRun.promise;
    report('half done');
    order.push(title);
  };
  const { lines, error } = await runSteps([
    missing('one', meet('one')),
    missing('two', meet('two')),
    missing('last', async () => void order.push('last'), {
      needs: ['one', 'two', 'a step of another purpose'],
      isDone: () => order.length < 2,
    }),
  ]);
  expect(error).toBe(null);
  expect(order.at(-1)).toBe('last');
  expect(lines).toEqual(expect.arrayContaining(['  one: half done', '  two: half done']));
});

test('after a failure the running steps go on, no other begins, and the reason comes last', async () => {
  const ran: string[] = [];
  const failed = Promise.withResolvers<void>();
  const { lines, error } = await runSteps([
    missing('slow', async () => {
      await failed.promise;
      ran.push('slow');
    }),
    missing('broken', async () => {
      setImmediate(failed.resolve);
      throw new SetupError('Do this.');
    }),
    missing('after slow', async () => void ran.push('after slow'), { needs: ['slow'] }),
    missing('after broken', async () => void ran.push('after broken'), { needs: ['broken'] }),
  ]);
  expect(ran).toEqual(['slow']);
  expect(error).toMatchObject({ name: 'SetupError', message: 'Do this.' });
  expect(lines).toContain('  broken: failed');
  expect(lines).toContain('  Still running: slow. Nothing else begins.');
  expect(lines.find((line) => line.startsWith('  slow: done in '))).toBeDefined();
});

test('a stop ends the commands of all steps and their descendants, except one that must not be interrupted', async () => {
  const stop = new AbortController();
  const pids: number[] = [];
  const done = path.join(dir, 'done');
  const note = (line: string) => {
    pids.push(Number(line));
    if (pids.length === 3) stop.abort();
  };
  const spawned = () =>
    runCommand('sh', ['-c', 'sleep 1000 & echo $!; echo $$; wait'], { onLine: note }).then(() => {});
  const whole = ['-c', 'echo $$; while [ ! -e "$1" ]; do sleep 0.01; done; : > "$1.whole"', 'sh', done];
  stop.signal.addEventListener('abort', () => fs.writeFileSync(done, ''));
  const { error } = await runSteps(
    [
      missing('many', spawned),
      missing('whole', () => runCommand('sh', whole, { onLine: note, isInterruptible: false }).then(() => {})),
    ],
    stop.signal,
  );
  expect(error).toMatchObject({ name: 'SetupError', message: expect.stringMatching(/^Set-up was stopped/) });
  expect(pids).toHaveLength(3);
  await until(() => pids.every((pid) => !fs.existsSync(`/proc/${pid}`) || isZombie(pid)));
  expect(fs.existsSync(`${done}.whole`)).toBe(true);
});

const isZombie = (pid: number) => /^State:\s+Z/m.test(readIfThere(`/proc/${pid}/status`) || 'State: Z');

test('Ctrl-C during a step ends set-up with a line, without a trace and without a program left', async () => {
  const program = path.join(dir, 'npm');
  fs.writeFileSync(program, `#!/bin/sh\necho $$ > ${dir}/pid\nsleep 1000\n`, { mode: 0o755 });
  const root = path.join(dir, 'copy');
  fs.mkdirSync(root);
  for (const name of ['ops', 'platform', 'runtime', 'package-lock.json'])
    fs.symlinkSync(path.join(repository, name), path.join(root, name));
  const child = spawn(
    process.execPath,
    ['--preserve-symlinks', '--preserve-symlinks-main', 'ops/setup/main.mjs', '--for', 'packages'],
    {
      cwd: root,
      env: { ...process.env, NODE_OPTIONS: '', PATH: `${dir}:${process.env.PATH}`, PLATFORM_CACHE_DIR: dir },
    },
  );
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const ended = once(child, 'exit');
  await until(() => readIfThere(`${dir}/pid`).endsWith('\n'));
  const pid = Number(readIfThere(`${dir}/pid`));
  child.kill('SIGINT');
  child.kill('SIGTERM');
  expect(await ended).toEqual([130, null]);
  expect(output).toBe(
    'Set-up:\n  npm packages …\n\nStopping set-up …\n  npm packages: stopped\n\nSet-up was stopped. The next start goes on from here.\n',
  );
  expect(fs.existsSync(`/proc/${pid}`)).toBe(false);
});

test('set-up makes the images of templates in --with, and lists those that it can make', async () => {
  const [step, ...others] = imagesAskedFor(repository, ['code-interpreter']);
  expect(others).toEqual([]);
  expect(step!.title).toBe('Image of the template code-interpreter');
  // The tests' own set-up has made it.
  expect(await step!.isDone()).toBe(true);
  const words = ['ops/setup/main.mjs', '--for', 'packages', '--with', 'nothing'];
  const refused = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      words,
      { cwd: repository, env: { ...process.env, NODE_OPTIONS: '' } },
      (error, _, stderr) => resolve(`${error?.code} ${stderr}`),
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

test("npm installs from a registry whose CA is only in the machine's store", async () => {
  const ca = await TestCa.create();
  const { certificate, key } = await ca.issue({ name: 'registry', answersFor: [{ type: 'ip', value: '127.0.0.1' }] });
  fs.mkdirSync(path.join(dir, 'package'));
  fs.writeFileSync(path.join(dir, 'package/package.json'), '{"name":"a","version":"1.0.0"}');
  execFileSync('tar', ['-czf', path.join(dir, 'a.tgz'), '-C', dir, 'package']);
  const registry = https.createServer({ cert: certificate, key }, (_request, response) =>
    response.end(fs.readFileSync(path.join(dir, 'a.tgz'))),
  );
  registry.listen(0, '127.0.0.1');
  await once(registry, 'listening');
  const url = `https://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const manifest = { name: 'copy', version: '1.0.0', dependencies: { a: '1.0.0' } };
  const locked = { '': manifest, 'node_modules/a': { version: '1.0.0', resolved: `${url}/a.tgz` } };
  const copy = path.join(dir, 'copy');
  fs.mkdirSync(copy);
  fs.writeFileSync(path.join(copy, 'package.json'), JSON.stringify(manifest));
  fs.writeFileSync(path.join(copy, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages: locked }));
  fs.writeFileSync(path.join(dir, 'store.pem'), ca.pair.certificate);
  const npmFile = JSON.stringify(path.join(repository, 'ops/setup/npm-packages.mjs'));
  const source = `const { npmPackages } = await import(${npmFile}); await npmPackages(${JSON.stringify(copy)}).run();`;
  const script = '[ -z "$1" ] || mount --bind "$1" /etc/ssl/certs/ca-certificates.crt; shift; exec "$@"';
  /** @param store the machine's store. Empty: that of this machine */
  const install = (store: string) =>
    new Promise<string>((resolve) => {
      const inside = ['--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', store];
      const words = [...inside, process.execPath, '--input-type=module', '--eval', source];
      const env = {
        ...{ PATH: process.env.PATH, HOME: dir, npm_config_registry: url },
        ...{ npm_config_fetch_retries: '0', npm_config_cache: path.join(dir, 'npm') },
      };
      execFile('unshare', words, { env }, (error, _stdout, stderr) => resolve(error ? stderr : 'installed'));
    });
  try {
    expect(await install('')).toMatch(/certificate/);
    expect(await install(path.join(dir, 'store.pem'))).toBe('installed');
    expect(fs.existsSync(path.join(copy, 'node_modules/a/package.json'))).toBe(true);
  } finally {
    registry.closeAllConnections();
    registry.close();
  }
}, 60_000);

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
