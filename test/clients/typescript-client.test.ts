import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import * as pty from '@lydell/node-pty';
import {
  CommandFailedError,
  type CreateOptions,
  Sandbox,
  type SandboxError,
} from '../../clients/typescript/src/index.ts';
import { releaseVersion } from '../../platform/config/release.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { ProjectWithClient, readPrograms } from './packed-client.ts';

const run = promisify(execFile);

/** The TypeScript client and its command line against the whole platform. */
let platform: RunningPlatform;
let options: CreateOptions;
let sandbox: Sandbox;
/** The project with the client from its packed archive. */
let project: ProjectWithClient;
let cliScript: string;

beforeAll(async () => {
  [project, platform] = await Promise.all([ProjectWithClient.make(), RunningPlatform.shared()]);
  cliScript = path.join(project.dir, 'node_modules/@sandbox-platform/client/dist/cli/main.js');
  options = { apiUrl: platform.env.PLATFORM_URL, apiKey: platform.env.PLATFORM_API_KEY! };
  sandbox = await Sandbox.create({
    ...options,
    name: 'client',
    envs: { GREETING: 'hello' },
    metadata: { made: 'here' },
  });
}, 300_000);

afterAll(async () => {
  project?.remove();
  await platform?.leave();
}, 300_000);

const catchCode = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing was thrown',
    (error: SandboxError) => error.code,
  );

describe('sandboxes', () => {
  test('are listed, connected to, paused and resumed', async () => {
    const listed = [];
    for await (const each of Sandbox.list({ ...options, metadata: { made: 'here' } })) listed.push(each.sandbox_id);
    expect(listed).toEqual([sandbox.id]);
    await sandbox.pause();
    expect((await sandbox.info()).status).toBe('paused');
    expect(await catchCode(sandbox.commands.run('true'))).toBe('sandbox_not_running');
    await sandbox.resume();
    expect((await sandbox.info()).status).toBe('running');
    await sandbox.pause();
    const same = await Sandbox.connect(sandbox.id, options);
    expect((await same.commands.run('echo $GREETING')).stdout).toBe('hello\n');
  });

  test('end with the block that declares them', async () => {
    const made = await Sandbox.create(options);
    await made[Symbol.asyncDispose]();
    await until(async () => (await made.info()).status === 'terminated');
    await made.terminate();
    await made.delete();
  });

  test('are refused with the code of the API', async () => {
    expect(await catchCode(Sandbox.create({ ...options, template: 'none' }))).toBe('template_not_found');
    expect(await catchCode(Sandbox.get('sbx-none', options))).toBe('not_found');
    expect(await catchCode(Sandbox.create({ ...options, apiKey: 'wrong' }))).toBe('unauthenticated');
    expect(await catchCode(Sandbox.create({ ...options, apiUrl: '127.0.0.1:7080' }))).toBe('not_configured');
    expect((await Sandbox.get(sandbox.id, { ...options, apiKey: `${options.apiKey}\n` })).id).toBe(sandbox.id);
    const refused = await Sandbox.create({ ...options, timeoutSeconds: 1 }).catch((error) => error);
    expect(refused).toMatchObject({ code: 'validation_failed', status: 400, requestId: expect.any(String) });
    expect(refused.details).toEqual([{ path: 'timeout', reason: expect.stringContaining('at least 60 seconds') }]);
  });
});

describe('commands', () => {
  test('return output as it arrives, and their exit code', async () => {
    const pieces: string[] = [];
    const result = await sandbox.commands.run('echo out; echo "wörld €" >&2; exit 3', {
      onStdout: (text) => pieces.push(`out ${text}`),
      onStderr: (text) => pieces.push(`err ${text}`),
    });
    expect(result).toEqual({ exitCode: 3, stdout: 'out\n', stderr: 'wörld €\n', truncated: false });
    expect(pieces.sort()).toEqual(['err wörld €\n', 'out out\n']);
  });

  test('read their input to its end, or nothing without input', async () => {
    expect((await sandbox.commands.run('cat; echo end')).stdout).toBe('end\n');
    expect((await sandbox.commands.run('sort', { stdin: 'b\na\n' })).stdout).toBe('a\nb\n');
    expect((await sandbox.commands.run(['cat', '-'], { stdin: '$HOME' })).stdout).toBe('$HOME');
    expect((await sandbox.commands.run('ls /tmp/.stdin-*')).exitCode).not.toBe(0);
  });

  test('run in the background with open input, are listed, followed by others and killed', async () => {
    const cat = await sandbox.commands.run('cat', { background: true, stdin: 'open', tag: 'the-cat' });
    expect(await sandbox.commands.list()).toContainEqual({ pid: cat.pid, tag: 'the-cat', command: ['cat'] });
    const follower = await sandbox.commands.connect({ tag: 'the-cat' });
    await cat.sendStdin('typed\n');
    const readFirst = async (output: AsyncIterable<{ bytes: Uint8Array }>) => {
      for await (const { bytes } of output) return Buffer.from(bytes).toString();
      return null;
    };
    expect([await readFirst(cat), await readFirst(follower)]).toEqual(['typed\n', 'typed\n']);
    expect(await sandbox.commands.kill(cat.pid)).toBe(true);
    await until(async () => (await sandbox.commands.list()).every(({ pid }) => pid !== cat.pid));
    expect(await sandbox.commands.kill(cat.pid)).toBe(false);
  });

  test('are killed after their time, or when the caller aborts', async () => {
    expect(await catchCode(sandbox.commands.run('exec sleep 987', { timeoutMs: 200 }))).toBe('timed_out');
    const abort = new AbortController();
    const running = sandbox.commands.run('echo up; exec sleep 987', {
      signal: abort.signal,
      onStdout: () => abort.abort(new Error('enough')),
    });
    await expect(running).rejects.toThrow('enough');
    await until(async () => (await sandbox.commands.run('pgrep -x sleep')).exitCode === 1);
  });

  test('throw for a failure with the option for it, and drop the beginning of too much output', async () => {
    const failed = await sandbox.commands.run('echo bad >&2; exit 4', { check: true }).catch((error) => error);
    expect(failed).toBeInstanceOf(CommandFailedError);
    expect(failed).toMatchObject({ exitCode: 4, stderr: 'bad\n' });
    const much = await sandbox.commands.run('seq 1 100000', { maxOutputLength: 100 });
    expect(much.truncated).toBe(true);
    expect(much.stdout).toHaveLength(100);
    expect(much.stdout.endsWith('100000\n')).toBe(true);
  });
});

describe('files', () => {
  test('are written, read, listed, moved and removed', async () => {
    const { files } = sandbox;
    const bytes = Uint8Array.from({ length: 1_000_000 }, (_, index) => index % 251);
    await files.write('/root/tree/ä b/data.bin', bytes);
    expect(Buffer.from(await files.read('/root/tree/ä b/data.bin', { format: 'bytes' })).equals(bytes)).toBe(true);
    await files.write('tree/in-home.txt', 'text');
    expect(await files.read('~/tree/in-home.txt')).toBe('text');
    expect((await files.list('/root/tree', { depth: 2 })).map(({ path, type, size }) => [path, type, size])).toEqual(
      expect.arrayContaining([['/root/tree/ä b/data.bin', 'file', 1_000_000]]),
    );
    expect(await files.makeDir('/root/tree/new')).toBe(true);
    expect(await files.makeDir('/root/tree/new')).toBe(false);
    expect(await files.move('/root/tree/in-home.txt', '/root/tree/new/moved.txt')).toMatchObject({
      ...{ name: 'moved.txt', type: 'file', size: 4, modifiedAt: expect.any(Date), symlinkTarget: null },
    });
    await files.remove('/root/tree');
    expect(await files.exists('/root/tree')).toBe(false);
    expect(await catchCode(files.read('/root/tree/none'))).toBe('not_found');
    expect(await catchCode(files.read('/root'))).toBe('invalid_argument');
  });

  test('are copied from and to this machine', async () => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'client-files-'));
    const content = 'x'.repeat(30_000_000);
    fs.writeFileSync(path.join(dir, 'here'), content);
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    await sandbox.files.upload(path.join(dir, 'here'), '/root/there');
    await sandbox.files.download('/root/there', path.join(dir, 'back'));
    process.off('warning', onWarning);
    expect(warnings.filter(({ name }) => name === 'MaxListenersExceededWarning')).toEqual([]);
    expect(fs.readFileSync(path.join(dir, 'back'), 'utf8') === content).toBe(true);
    expect(await catchCode(sandbox.files.upload(path.join(dir, 'none'), '/root/there'))).toBe('ENOENT');
    fs.rmSync(dir, { recursive: true });
  });

  test('are watched until the watch is closed', async () => {
    await sandbox.files.makeDir('/root/watched');
    const watch = await sandbox.files.watch('/root/watched');
    await sandbox.files.write('/root/watched/a.txt', 'x');
    const seen = [];
    for await (const event of watch) {
      seen.push(event);
      watch.close();
    }
    expect(seen[0]).toEqual({ name: 'a.txt', type: 'create' });
  });

  test('can be read with signed URLs without a token, only by their path and for their time', async () => {
    await sandbox.files.write('/root/signed.txt', 'signed');
    const get = (url: string, method = 'GET', body?: string) => requestByHost(url, method, body);
    const url = await sandbox.files.downloadUrl('signed.txt', { expiresInSeconds: 60 });
    expect(await get(url)).toEqual([200, 'signed']);
    expect((await get(url.replace('signed.txt', 'other.txt')))[0]).toBe(401);
    expect((await get(await sandbox.files.downloadUrl('/root/signed.txt', { expiresInSeconds: -1 })))[0]).toBe(401);
    const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nnew\r\n--b--\r\n';
    expect(await get(await sandbox.files.uploadUrl('/root/signed.txt'), 'POST', form)).toEqual([
      ...[200, 'uploaded: /root/signed.txt'],
    ]);
    expect(await sandbox.files.read('/root/signed.txt')).toBe('new');
  });
});

test('a terminal has a changeable size, and accepts input', async () => {
  let shown = '';
  const terminal = await sandbox.pty.start({ cols: 100, rows: 30, onData: (bytes) => (shown += Buffer.from(bytes)) });
  const ended = terminal.wait();
  await terminal.resize({ cols: 111, rows: 33 });
  await terminal.write('stty size; tty; exit 5\n');
  expect(await ended).toEqual({ exitCode: 5 });
  expect(shown).toContain('33 111');
  expect(shown).toContain('/dev/pts/');
});

test('code runs in contexts that keep their state', async () => {
  expect(await sandbox.runCode('console.log("seen"); let x = 41; x', { language: 'javascript' })).toMatchObject({
    ...{ text: '41', stdout: 'seen\n', error: null, exitCode: 0 },
  });
  const context = await sandbox.createCodeContext({ language: 'javascript' });
  const { error } = await sandbox.runCode('x', { context });
  expect(error).toMatchObject({ name: 'ReferenceError' });
  const endless = sandbox.runCode('for (;;);', { context, timeoutMs: 1000 });
  expect(await catchCode(endless)).toBe('timed_out');
  expect((await sandbox.runCode('1 + 1', { context, timeoutMs: 60_000 })).text).toBe('2');
  await sandbox.destroyCodeContext(context.id);
  expect(await catchCode(sandbox.runCode('x', { context }))).toBe('not_found');
  const code = `display({ a: [1, 2n ** 53n + 1n] });
display({ 'application/vnd.sandbox.data+json': { text: '{"n": [1e-12, 9007199254740993]}' } }, { raw: true })`;
  const { results } = await sandbox.runCode(code, { language: 'javascript' });
  expect(results[0]!.json).toEqual({ a: [1, 9007199254740993n] });
  expect(results[1]!.data).toEqual({ n: [1e-12, 9007199254740993n] });
});

test('its links open the pages for browsers', async () => {
  const { web_terminal_available, web_files_available } = await sandbox.info();
  expect([web_terminal_available, web_files_available]).toEqual([true, true]);
  for (const page of ['terminal', 'files'] as const) {
    const url = sandbox.webUrl(page);
    expect(url).toBe(`http://${sandbox.domain}/${page}#token=${sandbox.accessToken}`);
    expect(await requestByHost(url)).toEqual([200, expect.stringContaining(`/${page}/assets/${page}-`)]);
  }
});

test('a port is reached from here with the token, and by others with a signed URL', async () => {
  await sandbox.files.write('/root/server.py', pythonServer);
  const running = await sandbox.commands.run(['python3', '-u', '/root/server.py'], { background: true });
  for await (const { bytes } of running) if (Buffer.from(bytes).includes('up')) break;
  const response = await sandbox.ports.request(8123, '/path?query');
  expect(await text(response.body)).toBe('served /path?query');
  expect((await requestByHost(sandbox.ports.url(8123)))[0]).toBe(401);
  const signed = sandbox.ports.url(8123, { path: '/a', signed: 'read', expiresInSeconds: 60 });
  expect(await requestByHost(signed)).toEqual([200, 'served /a']);
  await sandbox.ports.add({ port: 8123, name: 'web' });
  await until(async () => (await requestByHost(sandbox.ports.url(8123)))[0] === 200);
  expect((await sandbox.ports.list()).ports.map(({ port }) => port)).toContain(8123);
  await sandbox.ports.remove(8123);
});

describe('the packed archive in an empty project', () => {
  test('runs every program of the README', async () => {
    const env = { PLATFORM_URL: options.apiUrl, PLATFORM_API_KEY: options.apiKey };
    const programs = readPrograms('clients/typescript/README.md', 'ts');
    const outputs = await project.run(
      programs.map(({ source }) => source),
      env,
    );
    const byHeading = programs.map(({ heading }, index) => [heading, outputs[index]]);
    expect(Object.fromEntries(byHeading)).toEqual({
      'Ten lines': expect.stringMatching(/^hello from sbx-\w+\n\nkept in the sandbox\n$/),
      Sandboxes: expect.stringMatching(/^running\n\d+\nsbx-\w+ running\n$/),
      Commands: expect.stringMatching(
        /^a\nb\n\{\s+exitCode: 3[\s\S]*stdout a\nb\n\ntrue 0 a\nb\n 0\ntrue\nnobody\n\ntimed_out\n$/,
      ),
      Files: expect.stringMatching(/create data\.bin[\s\S]*data\.bin: 3[\s\S]*signature_expiration=/),
      Terminals: expect.stringMatching(/40 120[\s\S]*exitCode: 0/),
      Code: '42 null\n',
      Ports: expect.stringMatching(/^http:\/\/8000-sbx-.*signature=v1_.*\n200\n$/),
      Git: '0\n',
      'Templates, keys, usage and webhooks': expect.stringMatching(/^my-app available\nUSD\n/),
    });
  }, 300_000);

  test('runs the commands of the README', async () => {
    // The block before it packs the client, which this test has done.
    const { source } = readPrograms('clients/typescript/README.md', 'sh').at(-1)!;
    const env = { ...process.env, NODE_OPTIONS: '', ...connection() };
    const { stdout } = await run('bash', ['-euc', source], { cwd: project.dir, env, timeout: 100_000 });
    expect(stdout).toMatch(/^sandbox-platform COMMAND[\s\S]*from sbx-\w+\nexit code 3\n\/root\/note.txt\n\[/);
    expect(stdout).toMatch(/termina\w+\n$/);
  }, 300_000);
});

describe('the command line', () => {
  test('makes a sandbox, runs commands in it with their exit codes, moves it and ends it', async () => {
    const [created] = await cli('create', '--name', 'by-cli', '--env', 'A=1 2', '--metadata', 'by=cli');
    const id = created.trim();
    expect(await cli('exec', id, '--', 'echo "$A"; echo bad >&2; exit 7')).toEqual(['1 2\n', 'bad\n', 7]);
    expect(await cli('exec', id, '--', 'printf', '%s|', 'a b', '$A')).toEqual(['a b|$A|', '', 0]);
    expect(await cli('exec', id, '--stdin', '--', 'wc', '-c')).toEqual(['0\n', '', 0]);
    const [json, , code] = await cli('exec', id, '--json', '--cwd', '/tmp', '--', 'pwd; exit 3');
    expect([JSON.parse(json), code]).toEqual([{ exit_code: 3, stdout: '/tmp\n', stderr: '', truncated: false }, 3]);
    const [listed] = await cli('ls', '--json', '--metadata', 'by=cli');
    expect(JSON.parse(listed)).toMatchObject([{ sandbox_id: id, status: 'running' }]);
    expect((await cli('ls'))[0]).toContain(`${id}  running`);

    await cli('ports', id, '--add', '8000', '--name', 'web');
    expect(JSON.parse((await cli('ports', id, '--json'))[0])).toMatchObject([
      { port: 8000, name: 'web', url: expect.stringMatching(`^http://8000-${id}\\.`) },
    ]);
    const [link] = await cli('open', id, '--files');
    expect(link).toMatch(new RegExp(`^http://${id}\\.\\S+/files#token=\\S+\\n$`));
    expect(await cli('pause', id)).toEqual(['paused\n', '', 0]);
    expect(await cli('exec', id, '--', 'true')).toEqual(['', expect.stringContaining('[sandbox_not_running]'), 1]);
    expect(await cli('resume', id)).toEqual(['running\n', '', 0]);
    const [ended, , status] = await cli('kill', id, '--json');
    expect([JSON.parse(ended).sandbox_id, status]).toEqual([id, 0]);
    expect(await cli('exec', id)).toEqual(['', expect.stringContaining('Give a command after --'), 2]);
    expect(await cli('none')).toEqual(['', expect.stringContaining('no command none'), 2]);
    expect(await cli('create', 'base')).toEqual(['', expect.stringMatching(/no word base[\s\S]*\[--template T\]/), 2]);
    expect(await cli('--version')).toEqual([`${releaseVersion}\n`, '', 0]);
    await (await Sandbox.get(id, options)).delete();
  }, 300_000);

  test('copies files and folders in both directions', async () => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'client-cp-'));
    fs.mkdirSync(path.join(dir, 'tree/below'), { recursive: true });
    fs.writeFileSync(path.join(dir, 'tree/a.txt'), 'a');
    fs.writeFileSync(path.join(dir, 'tree/below/b.txt'), 'b');
    await sandbox.files.makeDir('/root/cp');
    await cli('cp', path.join(dir, 'tree'), `${sandbox.id}:/root/cp/`);
    expect(await sandbox.files.read('/root/cp/tree/below/b.txt')).toBe('b');
    await sandbox.commands.run('ln -s /etc/hostname /root/cp/tree/link');
    const [copied] = await cli('cp', `${sandbox.id}:/root/cp/tree`, path.join(dir, 'back'), '--json');
    expect(JSON.parse(copied).copied.sort()).toEqual([
      path.join(dir, 'back/a.txt'),
      path.join(dir, 'back/below/b.txt'),
      path.join(dir, 'back/link'),
    ]);
    expect(fs.readFileSync(path.join(dir, 'back/below/b.txt'), 'utf8')).toBe('b');
    await cli('cp', `${sandbox.id}:/etc/hostname`, dir);
    expect(fs.readFileSync(path.join(dir, 'hostname'), 'utf8')).toContain('sbx-');
    fs.rmSync(dir, { recursive: true });
  }, 300_000);

  test('opens a terminal that follows the size of its own', async () => {
    const terminal = pty.spawn(process.execPath, [cliScript, 'shell', sandbox.id], {
      ...{ cols: 90, rows: 20, cwd: project.dir },
      env: { ...process.env, NODE_OPTIONS: '', ...connection() },
    });
    let shown = '';
    terminal.onData((text) => {
      shown += text;
    });
    const exited = new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
    terminal.write('stty size\n');
    await until(() => shown.includes('20 90'));
    terminal.resize(101, 31);
    await until(
      async () => {
        terminal.write('stty size\n');
        return shown.includes('31 101');
      },
      45_000,
      200,
    );
    terminal.write('exit 9\n');
    expect(await exited).toBe(9);
  }, 300_000);

  test('follows a process, completes words, and runs through npx', async () => {
    const ticking =
      'while :; do echo tick; sleep 0.1; done & read line; kill $!; wait $! 2>/dev/null; echo "$line"; exit 6';
    const running = await sandbox.commands.run(ticking, { background: true, stdin: 'open', tag: 'talks' });
    running.disconnect();
    const followed = startCli('logs', sandbox.id, 'talks');
    await new Promise((resolve) => followed.child.stdout!.once('data', resolve));
    await running.sendStdin('second\n');
    expect(await outcome(followed)).toEqual([expect.stringMatching(/tick\nsecond\n$/), '', 6]);
    const [script] = await cli('completion', 'bash');
    const words = `${script}\nCOMP_WORDS=(sandbox-platform p); COMP_CWORD=1; _sandbox_platform; echo "\${COMPREPLY[@]}"`;
    expect((await run('bash', ['-c', words])).stdout).toBe('ports pause\n');
    const help = await run('npx', ['--no-install', 'sandbox-platform', '--help'], { cwd: project.dir });
    expect(help.stdout).toContain('sandbox-platform COMMAND');
  }, 300_000);
});

const connection = () => ({ PLATFORM_URL: options.apiUrl!, PLATFORM_API_KEY: options.apiKey! });

/** Runs the packed command line without input. */
const cli = (...args: string[]) => outcome(startCli(...args));

function startCli(...args: string[]) {
  const env = { ...process.env, NODE_OPTIONS: '', ...connection() };
  const running = run(process.execPath, [cliScript, ...args], { env, timeout: 90_000 });
  running.child.stdin!.end();
  return running;
}

function outcome(running: ReturnType<typeof startCli>): Promise<[stdout: string, stderr: string, exitCode: number]> {
  return running.then(
    ({ stdout, stderr }) => [stdout, stderr, 0],
    ({ stdout, stderr, code }) => [stdout, stderr, code],
  );
}

const pythonServer = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = ('served ' + self.path).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(('0.0.0.0', 8123), Handler)
print('up')
server.serve_forever()
`;

/** Sends a request like a program that resolves the names of sandboxes. Here every name leads to the gateway. */
async function requestByHost(url: string, method = 'GET', body?: string): Promise<[status: number, text: string]> {
  const { host, port, pathname, search } = new URL(url);
  const headers = { Host: host, ...(body && { 'Content-Type': 'multipart/form-data; boundary=b' }) };
  const request = { host: '127.0.0.1', port, path: `${pathname}${search}`, method, headers };
  return new Promise((resolve, reject) => {
    const sent = http.request(request, (response) => {
      text(response).then((body) => resolve([response.statusCode!, body]), reject);
    });
    sent.once('error', reject).end(body);
  });
}
