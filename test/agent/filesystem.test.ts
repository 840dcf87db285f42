import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Filesystem, FileType } from '../../agent/proto/gen/sandboxagent_pb.js';
import { TestAgent } from './support/agent.ts';
import { deepFolder } from './support/deep-folder.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

const expectCode = (code: Code, ...texts: string[]) =>
  expect.objectContaining({
    code,
    rawMessage: texts.length === 0 ? expect.any(String) : expect.stringMatching(new RegExp(texts.join('.*'))),
  });
const failure = (call: Promise<unknown>) =>
  call.then(
    () => 'succeeded',
    (error) => ConnectError.from(error),
  );

describe.each(['connect+json', 'connect+proto'] as const)('over %s', (protocol) => {
  const files = () => agent.client(Filesystem, protocol);
  const place = (name: string) => agent.path(`${protocol}-${name}`);

  test('Stat of a file returns every field', async () => {
    const path = place('file');
    fs.writeFileSync(path, '12345');
    fs.chownSync(path, 1, 12345);
    fs.chmodSync(path, 0o4751);
    fs.utimesSync(path, 1, 1_700_000_000.25);
    const { entry } = await files().stat({ path });
    expect(entry).toMatchObject({
      name: `${protocol}-file`,
      type: FileType.FILE,
      path,
      size: 5n,
      mode: 0o4751,
      permissions: '-rwsr-x--x',
      owner: 'daemon',
      group: '12345',
      modifiedTime: { seconds: 1_700_000_000n, nanos: 250_000_000 },
    });
    expect(entry!.symlinkTarget).toBeUndefined();
  });

  test('Stat of a directory, a link to one, a dangling link and special files returns their types', async () => {
    fs.mkdirSync(place('dir'));
    fs.symlinkSync(place('dir'), place('link'));
    fs.symlinkSync('nowhere', place('dangling'));
    execFileSync('mkfifo', [place('fifo')]);
    const server = net.createServer().listen(place('socket'));
    const stat = async (name: string) => (await files().stat({ path: place(name) })).entry!;
    expect(await stat('dir')).toMatchObject({
      type: FileType.DIRECTORY,
      permissions: 'drwxr-xr-x',
      owner: 'root',
      group: 'root',
    });
    expect(await stat('link')).toMatchObject({
      type: FileType.DIRECTORY,
      permissions: 'lrwxrwxrwx',
      symlinkTarget: place('dir'),
    });
    expect(await stat('dangling')).toMatchObject({ type: FileType.UNSPECIFIED, symlinkTarget: 'nowhere' });
    expect(await stat('fifo')).toMatchObject({ type: FileType.UNSPECIFIED, permissions: 'prw-r--r--' });
    expect((await stat('socket')).permissions[0]).toBe('s');
    server.close();
  });

  test('Stat of a missing path is not_found with the texts clients rely on', async () => {
    expect(await failure(files().stat({ path: place('missing') }))).toEqual(
      expectCode(Code.NotFound, 'not found', 'no such file or directory'),
    );
    fs.writeFileSync(place('plain'), '');
    expect(await failure(files().stat({ path: `${place('plain')}/below` }))).toEqual(
      expectCode(Code.FailedPrecondition, 'not a directory'),
    );
  });

  test('malformed paths are invalid_argument', async () => {
    for (const path of ['', 'a\0b', `/${'x'.repeat(300)}`]) {
      expect(await failure(files().stat({ path }))).toEqual(expectCode(Code.InvalidArgument));
    }
  });

  test('relative paths and ~ start at home, and .. is resolved', async () => {
    const home = (await files().stat({ path: '~' })).entry!.path;
    expect((await files().stat({ path: '.' })).entry!.path).toBe(home);
    expect((await files().stat({ path: '/usr/./bin/..' })).entry!.path).toBe('/usr');
  });

  test('MakeDir makes parents, and reports an existing folder', async () => {
    const path = place('new/deep/er');
    expect((await files().makeDir({ path })).entry).toMatchObject({ path, type: FileType.DIRECTORY });
    expect(fs.statSync(path).isDirectory()).toBe(true);
    expect(await failure(files().makeDir({ path }))).toEqual(
      expectCode(Code.AlreadyExists, 'directory already exists'),
    );
    fs.writeFileSync(place('occupied'), '');
    expect(await failure(files().makeDir({ path: place('occupied') }))).toEqual(
      expectCode(Code.AlreadyExists, 'already exists'),
    );
    expect(await failure(files().makeDir({ path: `${place('occupied')}/below` }))).toEqual(
      expectCode(Code.FailedPrecondition, 'not a directory'),
    );
  });

  test('a folder that cannot be made, for example below /proc, is refused after a limited number of attempts', async () => {
    const path = '/proc/nowhere/below';
    const refused = expectCode(Code.NotFound, 'no such file');
    expect(await failure(files().makeDir({ path }))).toEqual(refused);
    expect(await failure(files().move({ source: agent.folder, destination: path }))).toEqual(refused);
  });

  test('Move makes parents and replaces files and full directories', async () => {
    fs.writeFileSync(place('from'), 'new');
    const to = place('made/for/it');
    expect((await files().move({ source: place('from'), destination: to })).entry).toMatchObject({
      path: to,
      size: 3n,
    });
    expect(fs.existsSync(place('from'))).toBe(false);

    fs.mkdirSync(place('full'));
    fs.writeFileSync(`${place('full')}/old`, 'old');
    await files().move({ source: to, destination: place('full') });
    expect(fs.readFileSync(place('full'), 'utf8')).toBe('new');

    fs.mkdirSync(place('tree'));
    fs.writeFileSync(`${place('tree')}/leaf`, 'leaf');
    fs.mkdirSync(place('full2'));
    fs.writeFileSync(`${place('full2')}/old`, 'old');
    await files().move({ source: place('tree'), destination: place('full2') });
    expect(fs.readdirSync(place('full2'))).toEqual(['leaf']);
    expect(fs.readdirSync(agent.folder).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  test('Move of a missing source, into itself or over its own parent changes nothing', async () => {
    fs.mkdirSync(place('outer/inner'), { recursive: true });
    fs.writeFileSync(place('kept'), 'kept');
    expect(await failure(files().move({ source: place('missing'), destination: place('kept') }))).toEqual(
      expectCode(Code.NotFound, 'no such file'),
    );
    expect(fs.readFileSync(place('kept'), 'utf8')).toBe('kept');
    for (const [source, destination] of [
      ['outer', 'outer/inner/x'],
      ['outer/inner', 'outer'],
    ] as const) {
      expect(await failure(files().move({ source: place(source), destination: place(destination) }))).toEqual(
        expectCode(Code.InvalidArgument),
      );
    }
    expect(fs.existsSync(place('outer/inner'))).toBe(true);
    expect((await files().move({ source: place('kept'), destination: place('kept') })).entry!.path).toBe(place('kept'));
  });

  test('Remove removes files, full directories and links, and succeeds for a missing path', async () => {
    fs.mkdirSync(place('doomed/a/b'), { recursive: true });
    fs.writeFileSync(`${place('doomed')}/a/file`, '');
    fs.mkdirSync(place('spared'));
    fs.symlinkSync(place('spared'), `${place('doomed')}/a/link`);
    await files().remove({ path: place('doomed') });
    expect(fs.existsSync(place('doomed'))).toBe(false);
    expect(fs.existsSync(place('spared'))).toBe(true);
    await files().remove({ path: place('doomed') });
    expect(await failure(files().remove({ path: '/' }))).toEqual(expectCode(Code.InvalidArgument));
  });

  test('ListDir goes to the requested depth, parents before children, names in order', async () => {
    fs.mkdirSync(place('walk/b/c/d'), { recursive: true });
    fs.writeFileSync(`${place('walk')}/a`, '');
    fs.writeFileSync(`${place('walk')}/b/z`, '');
    fs.symlinkSync(place('walk'), `${place('walk')}/b/loop`);
    const names = async (depth: number) =>
      (await files().listDir({ path: place('walk'), depth })).entries.map(({ path }) =>
        path.slice(place('walk').length + 1),
      );
    expect(await names(0)).toEqual(['a', 'b']);
    expect(await names(1)).toEqual(['a', 'b']);
    expect(await names(2)).toEqual(['a', 'b', 'b/c', 'b/loop', 'b/z']);
    expect(await names(99)).toEqual(['a', 'b', 'b/c', 'b/c/d', 'b/loop', 'b/z']);
    fs.mkdirSync(place('hollow'));
    expect((await files().listDir({ path: place('hollow'), depth: 1 })).entries).toEqual([]);
  });

  test('ListDir of a missing path is not_found, of a file invalid_argument', async () => {
    fs.writeFileSync(place('notdir'), '');
    expect(await failure(files().listDir({ path: place('gone') }))).toEqual(
      expectCode(Code.NotFound, 'not found', 'no such file or directory'),
    );
    expect(await failure(files().listDir({ path: place('notdir') }))).toEqual(
      expectCode(Code.InvalidArgument, 'not a directory'),
    );
  });

  test('names that are not UTF-8 are shown in a form that requests accept', async () => {
    const folder = place('bytes');
    fs.mkdirSync(folder);
    const raw = Buffer.concat([Buffer.from(`${folder}/caf`), Buffer.from([0xe9, 0xff]), Buffer.from('é')]);
    fs.writeFileSync(raw, 'latin');
    const [entry] = (await files().listDir({ path: folder, depth: 1 })).entries;
    expect(entry!.name).toBe('caf\uf7e9\uf7ffé');
    expect((await files().stat({ path: entry!.path })).entry!.size).toBe(5n);
    await files().move({ source: entry!.path, destination: `${folder}/plain` });
    expect(fs.readFileSync(`${folder}/plain`, 'utf8')).toBe('latin');
    const odd = ['quo"te', 'back\\slash', 'new\nline', '\u{1f600}', '%2e', ' '];
    for (const name of odd) fs.writeFileSync(`${folder}/${name}`, '');
    const shown = (await files().listDir({ path: folder, depth: 1 })).entries.map(({ name }) => name);
    expect(shown.sort()).toEqual([...odd, 'plain'].sort());
  });
});

test('a folder with more entries than a reply may have is refused, and the agent continues', async () => {
  // In memory, because there so many can be made quickly.
  const folder = fs.mkdtempSync('/dev/shm/too-many-');
  execFileSync('/bin/sh', ['-c', `cd "${folder}" && seq 250001 | xargs touch`]);
  await expect(agent.client(Filesystem).listDir({ path: folder, depth: 1 })).rejects.toMatchObject({
    code: Code.ResourceExhausted,
  });
  await agent.client(Filesystem).remove({ path: folder });
  expect(fs.existsSync(folder)).toBe(false);
}, 300_000);

test('100,000 entries are listed while other requests are answered', async () => {
  const folder = agent.path('many');
  execFileSync('/bin/sh', ['-c', `mkdir "${folder}" && cd "${folder}" && seq -f 'entry-%06g' 100000 | xargs touch`]);
  let listed = false;
  const listing = agent
    .client(Filesystem)
    .listDir({ path: folder, depth: 1 })
    .finally(() => {
      listed = true;
    });
  let answeredMeanwhile = 0;
  while (!listed) {
    await fetch(`${agent.address}/health`);
    answeredMeanwhile += 1;
  }
  const { entries } = await listing;
  expect(entries).toHaveLength(100_000);
  expect(entries[99_999]!.name).toBe('entry-100000');
  expect(answeredMeanwhile).toBeGreaterThan(20);
  await agent.client(Filesystem).remove({ path: folder });
  expect(fs.existsSync(folder)).toBe(false);
}, 300_000);

test('ListDir leaves out entries whose path no call takes', async () => {
  const top = agent.path('too-deep');
  deepFolder(top, 4500);
  const { entries } = await agent.client(Filesystem).listDir({ path: top, depth: 100 });
  const { json } = await agent.post('Filesystem/ListDir', { path: top, depth: 100 });
  expect(json.entries).toHaveLength(entries.length);
  const longest = Math.max(...entries.map(({ path }) => path.length));
  expect(longest).toBeLessThan(4096);
  expect(longest).toBeGreaterThan(4096 - 202);
});

test('a tree that changes during the listing is listed without an error', async () => {
  const folder = agent.path('race');
  fs.mkdirSync(folder);
  let going = true;
  const churn = (async () => {
    for (let i = 0; going; i++) {
      const dir = `${folder}/${i % 50}`;
      await fs.promises.mkdir(`${dir}/sub`, { recursive: true });
      await fs.promises.writeFile(`${dir}/sub/file`, 'x');
      await fs.promises.rm(`${folder}/${(i + 25) % 50}`, { recursive: true, force: true });
    }
  })();
  let listings = 0;
  for (; listings < 100; listings++) await agent.client(Filesystem).listDir({ path: folder, depth: 5 });
  expect(listings).toBe(100);
  going = false;
  await churn;
});

test('Move to another filesystem keeps content, owners, modes, times and links', async () => {
  const other = agent.path('mounted');
  fs.mkdirSync(other);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', other]);
  try {
    const source = agent.path('moved');
    fs.mkdirSync(`${source}/sub`, { recursive: true });
    fs.writeFileSync(`${source}/sub/file`, 'content');
    fs.chownSync(`${source}/sub/file`, 1, 2);
    fs.chmodSync(`${source}/sub/file`, 0o6711);
    fs.utimesSync(`${source}/sub/file`, 5, 6);
    fs.symlinkSync('sub/file', `${source}/link`);
    const files = agent.client(Filesystem);
    await files.move({ source, destination: `${other}/there` });
    expect(fs.existsSync(source)).toBe(false);
    expect(fs.readFileSync(`${other}/there/sub/file`, 'utf8')).toBe('content');
    const stat = fs.statSync(`${other}/there/sub/file`);
    expect([stat.uid, stat.gid, stat.mode & 0o7777, stat.mtimeMs]).toEqual([1, 2, 0o6711, 6000]);
    expect(fs.readlinkSync(`${other}/there/link`)).toBe('sub/file');

    // A full disk is reported as such, and nothing is lost.
    fs.writeFileSync(agent.path('large'), Buffer.alloc(16 * 1024 * 1024));
    expect(await failure(files.move({ source: agent.path('large'), destination: `${other}/large` }))).toEqual(
      expectCode(Code.ResourceExhausted, 'no space left on device'),
    );
    expect(fs.existsSync(agent.path('large'))).toBe(true);
    expect(fs.readdirSync(other)).toEqual(['there']);
  } finally {
    execFileSync('umount', [other]);
  }
});

test('a sparse file is shown with its full length', async () => {
  const path = agent.path('sparse');
  fs.writeFileSync(path, '');
  fs.truncateSync(path, 2 ** 40);
  expect((await agent.client(Filesystem).stat({ path })).entry!.size).toBe(2n ** 40n);
  fs.rmSync(path);
});

test('Remove does not follow a link that replaces the directory that it empties', async () => {
  // So many that their removal takes longer than a busy machine can delay this process's next step.
  const count = 60_000;
  const spared = count / 10;
  for (const [folder, held] of [
    ['tree/inner', count],
    ['elsewhere', spared],
  ] as const) {
    fs.mkdirSync(agent.path(folder), { recursive: true });
    execFileSync('/bin/sh', ['-c', `cd "${agent.path(folder)}" && seq -f 'file-%.0f' ${held} | xargs touch`]);
  }
  const first = agent.path('tree/inner', fs.readdirSync(agent.path('tree/inner'))[0]!);
  const removed = agent.client(Filesystem).remove({ path: agent.path('tree') });
  const deadline = Date.now() + 60_000;
  while (fs.existsSync(first)) {
    if (Date.now() > deadline) throw new Error('the removal does not begin');
    await new Promise(setImmediate);
  }
  fs.renameSync(agent.path('tree/inner'), agent.path('moved'));
  fs.symlinkSync(agent.path('elsewhere'), agent.path('tree/inner'));
  // Otherwise the removal ended before the link existed, and the test proved nothing.
  expect(fs.readdirSync(agent.path('moved')).length).toBeGreaterThan(0);
  await removed;
  expect(fs.readdirSync(agent.path('elsewhere'))).toHaveLength(spared);
  expect(fs.existsSync(agent.path('tree'))).toBe(false);
}, 300_000);
