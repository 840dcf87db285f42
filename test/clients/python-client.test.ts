import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../support/made-once.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { programsOf } from './packed-client.ts';

const run = promisify(execFile);
const source = path.resolve(import.meta.dirname, '../../clients/python');
const checks = path.join(import.meta.dirname, 'python-checks.py');

/** What builds the wheel, and what it needs, as wheels in a folder: the client is then installed without a network. */
const builder = ['setuptools==80.9.0', 'wheel==0.45.1'];
const needed = ['httpx==0.28.1', 'typing_extensions==4.15.0'];

/** The Python client, built as a wheel and installed in a venv of its own, against the whole platform. */
const platform = new RunningPlatform();
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-python-'));
const python = path.join(dir, 'venv/bin/python');

beforeAll(async () => {
  await Promise.all([platform.start(), install()]);
}, 300_000);

afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
  fs.rmSync(dir, { recursive: true });
}, 180_000);

async function install(): Promise<void> {
  const tools = await madeOnce('test-python-client', [...builder, ...needed], async (made) => {
    await run('python3', ['-m', 'venv', made]);
    const pip = path.join(made, 'bin/pip');
    await run(pip, ['install', '--quiet', ...builder]);
    await run(pip, ['download', '--quiet', '--dest', path.join(made, 'wheels'), ...needed]);
  });
  const pip = (...args: string[]) =>
    run(path.join(tools, 'bin/pip'), ['--quiet', '--disable-pip-version-check', ...args]);
  fs.cpSync(source, path.join(dir, 'source'), { recursive: true });
  await pip('wheel', '--no-build-isolation', '--no-deps', '--no-index', '--wheel-dir', dir, path.join(dir, 'source'));
  await run(path.join(tools, 'bin/python'), ['-m', 'venv', '--without-pip', path.join(dir, 'venv')]);
  const [wheel] = fs.readdirSync(dir).filter((name) => name.endsWith('.whl'));
  await pip(
    ...['--python', python, 'install', '--no-index', '--find-links', path.join(tools, 'wheels')],
    path.join(dir, wheel!),
  );
}

async function runPython(...args: string[]): Promise<string> {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  const env = { ...process.env, PLATFORM_URL, PLATFORM_API_KEY, PYTHONPATH: '', PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout } = await run(python, args, { cwd: dir, env, timeout: 100_000 });
  return stdout;
}

test('the client without asyncio is that with asyncio, translated', async () => {
  const { stdout } = await run('python3', [path.join(source, 'generate_sync.py'), '--check']);
  expect(stdout).toBe('');
});

test.each(['sync', 'async'])(
  'the installed client (%s) does all that it can',
  async (kind) => {
    const output = await runPython(checks, kind);
    expect(output.trim().split('\n')).toEqual([
      ...[
        'sandboxes',
        'errors',
        'commands',
        'background',
        'limits',
        'files',
        'watch',
        'signed',
        'terminal',
        'code',
        'ports',
      ],
      'done',
    ]);
  },
  180_000,
);

test('every program of the README runs', async () => {
  const outputs = await Promise.all(
    programsOf('clients/python/README.md', 'python').map(async ({ heading, source: program }) => {
      return [heading, await runPython('-c', program)] as const;
    }),
  );
  expect(Object.fromEntries(outputs)).toEqual({
    'Ten lines': expect.stringMatching(/^hello from sbx-\w+\n\nkept in the sandbox\n$/),
    'With asyncio': expect.stringContaining("['0\\n', '1\\n', '2\\n']"),
    Commands: "a\nb\n3 'ada\\n'\nb'typed\\n'\ntimed_out\n",
    Files: expect.stringMatching(/^create data\.bin\n\[\('data\.bin', 3\)\]\nhttp:.*signature_expiration=\d+\n$/),
    Terminals: expect.stringMatching(/40 120[\s\S]*\n0\n$/),
    Code: '42 None\n',
    Ports: expect.stringMatching(/^http:\/\/8000-sbx-.*signature=v1_.*\n200\n$/),
    Life: "running\n['running']\n",
  });
}, 180_000);
