import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { text } from 'node:stream/consumers';
import type * as Package from 'e2b';
import { CalledMethods } from './called-methods.ts';
import { runParts, until } from './parts.ts';

/**
 * Calls every method that docs/e2b.md calls supported or refused, except those of the code interpreter, through the
 * version of the npm package e2b that the variable E2B_PACKAGE names.
 */
const sdk: typeof Package = await import(process.env.E2B_PACKAGE!);
const { Sandbox, Template, Volume, Secret } = sdk;
const gateway = new URL(process.env.E2B_SANDBOX_URL!);

const called = new CalledMethods();
called.watchClass(Sandbox, 'Sandbox', 'sandbox');
called.watchClass(Template, 'Template', 'template');
called.watchClass(Volume, 'Volume', 'volume');
called.watchClass(Secret, 'Secret', 'secret');

const shared = await Sandbox.create({ timeoutMs: 600_000, metadata: { role: 'shared' } });
called.watchObject(shared.files, 'sandbox.files');
called.watchObject(shared.commands, 'sandbox.commands');
called.watchObject(shared.pty, 'sandbox.pty');
called.watchObject(shared.git, 'sandbox.git');
const { commands, files, git, pty } = shared;

type ErrorClass = abstract new (...args: never[]) => Error;

/** @returns the error, which must be of the class and contain the text */
async function fails<E extends ErrorClass>(promise: Promise<unknown>, errorClass: E, message: RegExp) {
  const error = await promise.then(
    () => assert.fail(`It should fail with ${errorClass.name} ${message}`),
    (reason) => reason,
  );
  assert.ok(error instanceof errorClass, `not ${errorClass.name}: ${error.stack}`);
  assert.match(error.message, message);
  return error as InstanceType<E>;
}

/** A request to a port of the shared sandbox by its name, which not every resolver knows. */
async function request(host: string, path: string): Promise<string> {
  const sent = http.get({ host: gateway.hostname, port: gateway.port, path, headers: { host } });
  const [reply] = await once(sent, 'response');
  return text(reply);
}

async function sandboxes() {
  const options = {
    metadata: { role: 'tried', 'a key': 'ä value' },
    envs: { GREETING: 'hello' },
    timeoutMs: 300_000,
    lifecycle: { onTimeout: 'pause' as const },
    allowInternetAccess: false,
  };
  const sandbox = await Sandbox.create('base', options);
  assert.match(sandbox.sandboxId, /^sbx-/);
  assert.equal((await sandbox.commands.run('echo $GREETING')).stdout, 'hello\n');
  await fails(sandbox.commands.run('curl --silent --max-time 3 http://1.1.1.1'), sdk.CommandExitError, /exit status/);
  assert.equal(await sandbox.isRunning(), true);

  const info = await sandbox.getInfo();
  assert.equal(info.sandboxId, sandbox.sandboxId);
  assert.equal(info.state, 'running');
  assert.deepEqual(info.metadata, options.metadata);
  assert.equal(info.name, 'base');
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128);
  assert.equal(Math.round((info.endAt.getTime() - info.startedAt.getTime()) / 60_000), 5);
  assert.deepEqual(await Sandbox.getInfo(sandbox.sandboxId), info);
  assert.equal((await Sandbox.getFullInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId);

  await sandbox.setTimeout(1_200_000);
  const later = (await sandbox.getInfo()).endAt.getTime();
  assert.ok(Math.abs(later - Date.now() - 1_200_000) < 60_000);
  await Sandbox.setTimeout(sandbox.sandboxId, 600_000);
  assert.ok((await sandbox.getInfo()).endAt.getTime() < later);

  await pausesAndResumes(sandbox);
  assert.equal(await sandbox.kill(), true);
  assert.equal(await sandbox.kill(), false);
  assert.equal(await sandbox.isRunning(), false);
  await fails(Sandbox.connect(sandbox.sandboxId), sdk.NotFoundError, /./);
}

async function pausesAndResumes(sandbox: Package.Sandbox) {
  const { sandboxId } = sandbox;
  const sleeper = await sandbox.commands.run('sleep 1000', { background: true });
  assert.equal(await sandbox.pause(), true);
  assert.equal(await sandbox.pause(), false);
  assert.equal((await sandbox.getInfo()).state, 'paused');
  assert.equal(await sandbox.isRunning(), false);
  const same = await Sandbox.connect(sandboxId, { timeoutMs: 300_000 });
  assert.equal(same.sandboxId, sandboxId);
  // Its processes continue where they were.
  assert.ok((await same.commands.list()).some(({ pid }) => pid === sleeper.pid));
  await sleeper.disconnect();
  assert.equal(await Sandbox.pause(sandboxId), true);
  await sandbox.connect();
  assert.equal(await sandbox.betaPause(), true);
  await sandbox.connect();
  await sandbox.files.write('kept', 'on the disk');
  assert.equal(await Sandbox.betaPause(sandboxId), true);
  await sandbox.connect({ onResume: 'reboot' });
  assert.equal((await sandbox.getInfo()).state, 'running');
  assert.equal(await sandbox.files.read('kept'), 'on the disk');
  assert.deepEqual(await sandbox.commands.list(), []);
}

async function metricsAreTold() {
  const metrics = async () => (await shared.getMetrics()).at(-1);
  await until(async () => (await metrics()) !== undefined, 'the sandbox has metrics');
  const last = (await metrics())!;
  assert.equal(last.cpuCount, (await shared.getInfo()).cpuCount);
  assert.ok(last.memUsed > 0 && last.memTotal > last.memUsed && last.diskTotal > last.diskUsed);
  assert.ok((await Sandbox.getMetrics(shared.sandboxId)).length > 0);
}

async function lists() {
  const role = `listed by ${process.env.E2B_PACKAGE} ${process.pid}`;
  const begun = new Date(Date.now() - 5000);
  const made: Package.Sandbox[] = [];
  for (let index = 0; index < 2; index += 1) made.push(await Sandbox.create({ metadata: { role } }));
  const [first, second] = made.map(({ sandboxId }) => sandboxId);
  const query = { metadata: { role } };
  const ids = async (options: Package.SandboxListOpts) => {
    const found: string[] = [];
    const pages = Sandbox.list(options);
    while (pages.hasNext) found.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
    return found;
  };
  assert.deepEqual((await ids({ query })).sort(), [first, second].sort());
  assert.deepEqual(await ids({ query, limit: 1, order: 'asc' }), [first, second]);
  assert.deepEqual(await ids({ query, limit: 1, order: 'desc' }), [second, first]);
  const pages = Sandbox.list({ query, limit: 1, order: 'asc' });
  await pages.nextItems();
  assert.equal(pages.hasNext, true);
  assert.deepEqual(await ids({ query, limit: 1, order: 'asc', nextToken: pages.nextToken! }), [second]);
  await made[0]!.pause();
  assert.deepEqual(await ids({ query: { ...query, state: ['paused'] } }), [first]);
  assert.deepEqual(await ids({ query: { ...query, state: ['running'] } }), [second]);
  assert.equal((await ids({ query: { ...query, startedAfter: begun, template: 'base' } })).length, 2);
  assert.deepEqual(await ids({ query: { ...query, startedAfter: new Date(Date.now() + 60_000) } }), []);
  assert.deepEqual(await ids({ query: { ...query, template: 'code-interpreter-v1' } }), []);
  assert.deepEqual(await Promise.all(made.map(({ sandboxId }) => Sandbox.kill(sandboxId))), [true, true]);
  assert.equal(await Sandbox.kill(first!), false);
}

async function commandsRun() {
  const both = await commands.run('echo out; echo err >&2');
  assert.deepEqual([both.exitCode, both.stdout, both.stderr], [0, 'out\n', 'err\n']);
  assert.equal(
    (await commands.run('whoami; pwd; echo $HOME; shopt -q login_shell && echo login')).stdout,
    'user\n/home/user\n/home/user\nlogin\n',
  );
  const asRoot = { user: 'root', cwd: '/tmp', envs: { COLOR: 'blue "sky"' } };
  assert.equal((await commands.run('whoami; pwd; echo $COLOR', asRoot)).stdout, 'root\n/tmp\nblue "sky"\n');
  assert.equal((await commands.run('sudo -n whoami')).stdout, 'root\n');

  const failed = await fails(commands.run('echo out; echo err >&2; exit 3'), sdk.CommandExitError, /exit status 3/);
  assert.deepEqual([failed.exitCode, failed.stdout, failed.stderr], [3, 'out\n', 'err\n']);
  await fails(commands.run('sleep 60', { timeoutMs: 500 }), sdk.TimeoutError, /./);
  await fails(commands.run('true', { user: 'nobody-of-this-name' }), sdk.AuthenticationError, /./);
  await fails(commands.run('true', { cwd: '/nowhere' }), sdk.InvalidArgumentError, /\/nowhere/);

  const heard = { out: '', err: '' };
  await commands.run("printf 'ä€𝄞'; for i in 1 2 3; do echo $i >&2; sleep 0.05; done", {
    onStdout: (data) => {
      heard.out += data;
    },
    onStderr: (data) => {
      heard.err += data;
    },
  });
  assert.deepEqual(heard, { out: 'ä€𝄞', err: '1\n2\n3\n' });
  const { stdout } = await commands.run('head -c 6000000 /dev/zero | tr "\\0" x');
  assert.equal(stdout.length, 6_000_000);
  const many = await Promise.all(Array.from({ length: 20 }, (_, index) => commands.run(`echo ${index}`)));
  assert.deepEqual(
    many.map((each) => each.stdout),
    Array.from({ length: 20 }, (_, index) => `${index}\n`),
  );
}

async function commandsContinue() {
  const handle = await commands.run('while read line; do echo "got $line"; done; echo end', {
    background: true,
    stdin: true,
    envs: { MARK: 'mine' },
    cwd: '/tmp',
  });
  const listed = (await commands.list()).find(({ pid }) => pid === handle.pid)!;
  assert.equal(listed.cmd, '/bin/bash');
  assert.deepEqual(listed.args.slice(0, 2), ['-l', '-c']);
  assert.deepEqual([listed.cwd, listed.envs.MARK], ['/tmp', 'mine']);
  await handle.sendStdin('one\n');
  await commands.sendStdin(handle.pid, new TextEncoder().encode('two\n'));
  await until(() => handle.stdout === 'got one\ngot two\n', 'both lines came back');
  let later = '';
  const connected = await commands.connect(handle.pid, {
    onStdout: (data) => {
      later += data;
    },
  });
  await handle.disconnect();
  await connected.sendStdin('three\n');
  await commands.closeStdin(handle.pid);
  assert.equal((await connected.wait()).exitCode, 0);
  assert.equal(later, 'got three\nend\n');
  assert.equal(handle.stdout, 'got one\ngot two\n');

  const reader = await commands.run('cat', { background: true, stdin: true });
  await reader.sendStdin('last words');
  await reader.closeStdin();
  assert.equal((await reader.wait()).stdout, 'last words');

  const killed = await commands.run('sleep 1000', { background: true });
  assert.equal(killed.exitCode, undefined);
  assert.equal(await killed.kill(), true);
  const { exitCode, error } = await fails(killed.wait(), sdk.CommandExitError, /./);
  assert.deepEqual([exitCode, error], [-1, 'signal: killed']);
  const other = await commands.run('sleep 1000', { background: true, timeoutMs: 0 });
  assert.equal(await commands.kill(other.pid), true);
  await fails(other.wait(), sdk.CommandExitError, /./);
  assert.equal(await commands.kill(other.pid), false);
  await fails(commands.connect(999_999), sdk.NotFoundError, /./);
  await fails(commands.sendStdin(999_999, 'x'), sdk.NotFoundError, /./);
}

async function terminals() {
  let shown = '';
  const decoder = new TextDecoder();
  const onData = (data: Uint8Array) => {
    shown += decoder.decode(data, { stream: true });
  };
  const shows = (part: string) => until(() => shown.includes(part), `the terminal shows ${part}: ${shown}`);
  const type = (line: string) => pty.sendInput(terminal.pid, new TextEncoder().encode(`${line}\n`));
  const options = { cols: 80, rows: 24, cwd: '/tmp', envs: { MARK: 'of the terminal' }, user: 'user' };
  const terminal = await pty.create({ ...options, onData, timeoutMs: 0 });
  await type('echo "<$MARK>" "<$PWD>" "<$TERM>" "<$(stty size)>"');
  await shows('<of the terminal> </tmp> <xterm-256color> <24 80>');
  await pty.resize(terminal.pid, { cols: 100, rows: 40 });
  await type('echo "<$(stty size)>"');
  await shows('<40 100>');
  await terminal.disconnect();
  const again = await pty.connect(terminal.pid, { onData });
  shown = '';
  await type('echo "<$((6 * 7))>"; exit 7');
  await shows('<42>');
  assert.equal((await fails(again.wait(), sdk.CommandExitError, /7/)).exitCode, 7);

  const doomed = await pty.create({ cols: 80, rows: 24, onData: () => {} });
  assert.equal(await pty.kill(doomed.pid), true);
  await fails(doomed.wait(), sdk.CommandExitError, /./);
  assert.equal(await pty.kill(doomed.pid), false);
}

async function filesAreWrittenAndRead() {
  const written = await files.write('notes/a.txt', 'ä text');
  assert.deepEqual([written.name, written.type, written.path], ['a.txt', 'file', '/home/user/notes/a.txt']);
  assert.equal(await files.read('notes/a.txt'), 'ä text');
  const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
  for (const options of [{}, { useOctetStream: true }, { gzip: true }]) {
    await files.write('/home/user/bytes', bytes.buffer, options);
    assert.deepEqual(Buffer.from(await files.read('/home/user/bytes', { format: 'bytes' })), Buffer.from(bytes));
  }
  await files.write('blob', new Blob(['of a blob']));
  assert.equal(await (await files.read('blob', { format: 'blob' })).text(), 'of a blob');
  await files.write('stream', new Blob([bytes]).stream());
  const read = await files.read('stream', { format: 'stream', gzip: true });
  assert.deepEqual(Buffer.from(await new Response(read).arrayBuffer()), Buffer.from(bytes));
  assert.equal(await files.read('notes/a.txt', { gzip: true }), 'ä text');
  await files.write('empty', '');
  assert.equal(await files.read('empty'), '');

  const many = Array.from({ length: 30 }, (_, index) => ({ path: `many/${index}`, data: `${index}` }));
  assert.equal((await files.writeFiles(many)).length, 30);
  assert.equal((await files.write(many)).length, 30);
  assert.equal(await files.read('many/29'), '29');

  await files.write('marked', 'x', { metadata: { Author: 'ada', topic: 'a b' } });
  assert.deepEqual((await files.getInfo('marked')).metadata, { author: 'ada', topic: 'a b' });
  await files.write('/root/of-root', 'x', { user: 'root' });
  assert.equal((await files.getInfo('/root/of-root', { user: 'root' })).owner, 'root');
  await fails(files.read('/nowhere'), sdk.FileNotFoundError, /./);
  // As at E2B, a file belongs to the user of the request, who may write it anywhere.
  await files.write('/etc/of-user', 'x');
  assert.equal((await files.getInfo('/etc/of-user')).owner, 'user');
  await fails(files.read('/home/user'), sdk.InvalidArgumentError, /./);
}

async function filesAreListed() {
  assert.equal(await files.makeDir('tree/deep/er'), true);
  assert.equal(await files.makeDir('tree/deep'), false);
  await files.write('tree/one', '1');
  await files.write('tree/deep/two', '22');
  await commands.run('ln -s one tree/link && chmod 640 tree/one');
  const names = async (depth?: number) =>
    (await files.list('tree', { ...(depth && { depth }) }))
      .map((each) => each.path.slice('/home/user/tree/'.length))
      .sort();
  assert.deepEqual(await names(), ['deep', 'link', 'one']);
  assert.deepEqual(await names(2), ['deep', 'deep/er', 'deep/two', 'link', 'one']);
  const one = await files.getInfo('tree/one');
  assert.deepEqual(
    [one.name, one.type, one.path, one.size, one.mode, one.permissions, one.owner, one.group],
    ['one', 'file', '/home/user/tree/one', 1, 0o640, '-rw-r-----', 'user', 'user'],
  );
  assert.ok(Math.abs(one.modifiedTime!.getTime() - Date.now()) < 60_000);
  assert.equal((await files.getInfo('tree/link')).symlinkTarget, '/home/user/tree/one');
  assert.equal((await files.getInfo('tree/deep')).type, 'dir');
  const renamed = await files.rename('tree/one', 'tree/first');
  assert.deepEqual([renamed.name, renamed.path], ['first', '/home/user/tree/first']);
  assert.deepEqual([await files.exists('tree/one'), await files.exists('tree/first')], [false, true]);
  await files.remove('tree');
  assert.equal(await files.exists('tree'), false);
  await fails(files.getInfo('tree'), sdk.FileNotFoundError, /./);
  await fails(files.list('tree'), sdk.NotFoundError, /./);
  await fails(files.rename('tree', 'other'), sdk.NotFoundError, /./);
}

async function filesAreWatched() {
  await files.makeDir('watched/below');
  const events: Package.FilesystemEvent[] = [];
  let ended = 0;
  const watcher = await files.watchDir('watched', (event) => void events.push(event), {
    recursive: true,
    includeEntry: true,
    onExit: () => {
      ended += 1;
    },
  });
  await files.write('watched/below/new', 'abc');
  const saw = (type: string, name: string) => events.some((event) => event.type === type && event.name === name);
  await until(() => saw('create', 'below/new'), 'the new file was seen');
  await files.write('watched/below/new', 'abcdef');
  await until(() => saw('write', 'below/new'), 'the write was seen');
  const withEntry = events.find(({ name, entry }) => name === 'below/new' && entry)!;
  assert.equal(withEntry.entry!.path, '/home/user/watched/below/new');
  await files.rename('watched/below/new', 'watched/moved');
  await until(() => saw('rename', 'below/new') && saw('create', 'moved'), 'the move was seen');
  await files.remove('watched/moved');
  await until(() => saw('remove', 'moved'), 'the removal was seen');
  await commands.run('touch watched/f && chmod 600 watched/f');
  await until(() => saw('chmod', 'f'), 'the new mode was seen');
  await watcher.stop();
  await until(() => ended === 1, 'the watcher has ended');
  await fails(
    files.watchDir('nowhere', () => {}),
    sdk.NotFoundError,
    /./,
  );
  await fails(
    files.watchDir('.bashrc', () => {}),
    sdk.InvalidArgumentError,
    /./,
  );
}

async function urlsOfFiles() {
  // E2B_SANDBOX_URL names no sandbox, so the headers do.
  const headers = { 'E2b-Sandbox-Id': shared.sandboxId, 'E2b-Sandbox-Port': '49983' };
  const uploadUrl = await shared.uploadUrl('by-url', { useSignatureExpiration: 60 });
  const form = new FormData();
  form.append('file', new Blob(['through a URL']), 'by-url');
  assert.equal((await fetch(uploadUrl, { method: 'POST', body: form, headers })).status, 200);
  const url = await shared.downloadUrl('by-url');
  assert.equal(await (await fetch(url, { headers })).text(), 'through a URL');
  const part = await fetch(url, { headers: { ...headers, range: 'bytes=8-8' } });
  assert.deepEqual([part.status, await part.text()], [206, 'a']);
  const ofRoot = await shared.downloadUrl('/root/.bashrc', { user: 'root', useSignatureExpiration: 60 });
  assert.equal((await fetch(ofRoot, { headers })).status, 200);
  const other = new URL(url);
  other.searchParams.set('path', '.bashrc');
  assert.equal((await fetch(other, { headers })).status, 401);
  const expired = await shared.downloadUrl('by-url', { useSignatureExpiration: -60 });
  assert.equal((await fetch(expired, { headers })).status, 401);
  assert.equal((await fetch(`${gateway.origin}/files?path=by-url`, { headers })).status, 401);
}

async function portsArePublic() {
  const server = await commands.run('echo served >index.html; exec python3 -m http.server 3000', {
    background: true,
    cwd: '/tmp',
  });
  const host = shared.getHost(3000);
  assert.ok(host.startsWith(`3000-${shared.sandboxId}.`) && host.endsWith(`:${gateway.port}`), host);
  await until(async () => (await request(host, '/')) === 'served\n', 'the server answers');
  await server.kill();
  const plain = await Sandbox.create({ secure: false });
  assert.equal((await plain.commands.run('echo works')).stdout, 'works\n');
  await plain.kill();
}

async function gitWorks() {
  const home = '/home/user/git';
  await files.makeDir(home);
  await git.init(`${home}/origin`, { bare: true, initialBranch: 'main' });
  await git.configureUser('Ada', 'ada@example.com');
  assert.equal(await git.getConfig('user.email'), 'ada@example.com');
  await git.clone(`file://${home}/origin`, { path: `${home}/work` });
  const work = `${home}/work`;
  await git.setConfig('core.abbrev', '12', { scope: 'local', path: work });
  assert.equal(await git.getConfig('core.abbrev', { scope: 'local', path: work }), '12');
  assert.equal(await git.remoteGet(work, 'origin'), `file://${home}/origin`);
  await git.remoteAdd(work, 'second', `file://${home}/second`);
  assert.equal(await git.remoteGet(work, 'second'), `file://${home}/second`);
  assert.equal(await git.remoteGet(work, 'third'), undefined);
  await files.write(`${work}/a`, '1');
  assert.equal((await git.status(work)).hasUntracked, true);
  await git.add(work);
  assert.equal((await git.status(work)).stagedCount, 1);
  await git.commit(work, 'first', { authorName: 'Grace', authorEmail: 'grace@example.com' });
  await git.push(work, { remote: 'origin', branch: 'main', setUpstream: true });
  await git.createBranch(work, 'side');
  assert.equal((await git.branches(work)).currentBranch, 'side');
  await git.checkoutBranch(work, 'main');
  await git.deleteBranch(work, 'side', { force: true });
  assert.deepEqual((await git.branches(work)).branches, ['main']);
  await files.write(`${work}/a`, '2');
  await git.restore(work, { paths: ['a'] });
  assert.equal(await files.read(`${work}/a`), '1');
  await files.write(`${work}/b`, 'b');
  await git.add(work, { files: ['b'] });
  await git.reset(work, { mode: 'hard' });
  assert.equal((await git.status(work)).isClean, true);
  await git.clone(`file://${home}/origin`, { path: `${home}/other`, branch: 'main', depth: 1 });
  await files.write(`${home}/other/c`, 'c');
  await git.add(`${home}/other`);
  await git.commit(`${home}/other`, 'second');
  await git.push(`${home}/other`);
  await git.pull(work);
  assert.equal(await files.read(`${work}/c`), 'c');
  const login = { username: 'ada', password: 'secret word', host: 'git.example.com', protocol: 'https' };
  await git.dangerouslyAuthenticate(login);
  const asked = await commands.run(String.raw`printf 'protocol=https\nhost=git.example.com\n\n' | git credential fill`);
  assert.match(asked.stdout, /username=ada\npassword=secret word/);
  await fails(git.clone(`file://${home}/nowhere`), sdk.CommandExitError, /./);
}

async function templatesAreFound() {
  assert.equal(await Template.exists('base'), true);
  assert.equal(await Template.exists('code-interpreter-v1'), true);
  assert.equal(await Template.exists('no-such-template'), false);
  assert.equal(await Template.aliasExists('base'), true);
}

async function clientsHaveTheirOwnSettings() {
  const { E2B_API_KEY, E2B_API_URL } = process.env;
  const client = new sdk.E2B({ apiKey: E2B_API_KEY!, apiUrl: E2B_API_URL! });
  assert.equal((await client.Sandbox.getInfo(shared.sandboxId)).sandboxId, shared.sandboxId);
  const wrong = `e2b_${Buffer.from('spk_wrong').toString('hex')}`;
  await fails(Sandbox.getInfo(shared.sandboxId, { apiKey: wrong }), sdk.AuthenticationError, /./);
  await fails(Sandbox.getInfo('sbx-00000000-0000-4000-8000-000000000000'), sdk.NotFoundError, /./);
  await fails(Sandbox.create('no-such-template'), sdk.SandboxError, /no such template/);
  const text = Buffer.from(E2B_API_KEY!.slice('e2b_'.length), 'hex').toString();
  assert.equal((await Sandbox.getInfo(shared.sandboxId, { apiKey: text })).state, 'running');
}

/** What cannot be done is refused with a sentence that says so. */
async function refusals() {
  const { sandboxId } = shared;
  const { SandboxError, SecretError, VolumeError, BuildError } = sdk;
  const refused = (promise: Promise<unknown>, errorClass: ErrorClass = SandboxError) =>
    fails(promise, errorClass, /not supported|must be true/);
  const create = (options: object) => refused(Sandbox.create(options));
  // There are no snapshots.
  assert.equal(await Sandbox.deleteSnapshot('a-snapshot:latest'), false);
  await Promise.all([
    create({ lifecycle: { onTimeout: 'pause', autoResume: true } }),
    create({ network: { denyOut: ['0.0.0.0/0'] } }),
    create({ network: { allowPublicTraffic: false } }),
    create({ volumeMounts: { '/data': 'a-volume' } }),
    create({ iam: { tokens: { aws: Secret.iamToken({ audience: 'a', tokenType: 'JWT-SVID' }) } } }),
    create({ mcp: { browserbase: { apiKey: 'x' } } }),
    refused(shared.pause({ keepMemory: false })),
    refused(Sandbox.updateNetwork(sandboxId, { denyOut: ['1.1.1.1'] })),
    refused(shared.updateNetwork({ denyOut: ['1.1.1.1'] })),
    refused(Sandbox.fork(sandboxId)),
    refused(shared.fork()),
    refused(Sandbox.createSnapshot(sandboxId)),
    refused(shared.createSnapshot()),
    refused(Sandbox.listSnapshots().nextItems()),
    refused(shared.listSnapshots().nextItems()),
    fails(shared.getMcpToken(), sdk.FileNotFoundError, /./),
    refused(Template.build(Template().fromImage('debian:12'), 'built'), BuildError),
    refused(Template.buildInBackground(Template().fromImage('debian:12'), 'built'), BuildError),
    refused(Template.getBuildStatus({ templateId: 'a', buildId: 'b' }), BuildError),
    refused(Template.assignTags('base:default', ['mine'])),
    refused(Template.removeTags('base', ['mine'])),
    refused(Template.getTags('base')),
    refused(Volume.create('a-volume'), VolumeError),
    refused(Volume.connect('a-volume'), VolumeError),
    refused(Volume.getInfo('a-volume'), VolumeError),
    refused(Volume.list(), VolumeError),
    refused(Volume.destroy('a-volume'), VolumeError),
    refused(Secret.create('name', 'value'), SecretError),
    refused(Secret.update('name', 'value'), SecretError),
    refused(Secret.getInfo('name'), SecretError),
    refused(Secret.exists('name'), SecretError),
    refused(Secret.destroy('name'), SecretError),
    refused(Secret.list().nextItems(), SecretError),
  ]);
  assert.equal((await shared.getInfo()).state, 'running');
}

await runParts(
  {
    ...{ sandboxes, lists, commandsRun, commandsContinue, terminals, filesAreWrittenAndRead, filesAreListed },
    ...{ filesAreWatched, urlsOfFiles, portsArePublic, gitWorks, templatesAreFound },
    ...{ clientsHaveTheirOwnSettings, refusals, metricsAreTold },
  },
  () => called.names,
);
await shared.kill();
