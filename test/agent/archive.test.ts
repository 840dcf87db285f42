import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { extract, type Header } from 'tar-stream';
import { type TarEntry, tarOf } from '../support/tar.ts';
import { eventually, headers, TestAgent } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

const archiveUrl = (folder: string) => `${agent.address}/archive?path=${encodeURIComponent(folder)}`;
const get = (folder: string, header = {}) => fetch(archiveUrl(folder), { headers: headers(header) });
const post = (folder: string, body: Uint8Array, header = {}) =>
  fetch(archiveUrl(folder), { method: 'POST', headers: headers(header), body: body as never });

async function entriesOf(tar: Uint8Array): Promise<{ header: Header; content: Buffer }[]> {
  const found: { header: Header; content: Buffer }[] = [];
  const reader = extract();
  reader.end(Buffer.from(tar));
  for await (const entry of reader) {
    const pieces: Buffer[] = [];
    for await (const piece of entry) pieces.push(piece as Buffer);
    found.push({ header: entry.header, content: Buffer.concat(pieces) });
  }
  return found;
}

/** Everything below a folder, with what an archive keeps. */
function tree(folder: Buffer, name = ''): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const child of fs.readdirSync(folder, 'buffer')) {
    const full = Buffer.concat([folder, Buffer.from('/'), child]);
    const below = `${name}/${child.toString('latin1')}`;
    const stat = fs.lstatSync(full);
    const facts = [stat.mode, stat.mtimeMs];
    if (stat.isDirectory()) Object.assign(found, { [below]: facts }, tree(full, below));
    else found[below] = [...facts, stat.isSymbolicLink() ? fs.readlinkSync(full) : fs.readFileSync(full, 'latin1')];
  }
  return found;
}
const treeAt = (folder: string) => tree(Buffer.from(folder));

function makeTree(folder: string): void {
  fs.mkdirSync(path.join(folder, 'empty'), { recursive: true });
  fs.mkdirSync(path.join(folder, 'with space/ü'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'with space/ü/line\nbreak'), 'content');
  fs.writeFileSync(path.join(folder, 'zero'), '');
  fs.writeFileSync(path.join(folder, 'large'), randomBytes(3_000_000));
  fs.writeFileSync(path.join(folder, 'n'.repeat(200)), 'long name');
  fs.writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0x61])]), 'not UTF-8');
  fs.symlinkSync('/nowhere', path.join(folder, 'absolute'));
  fs.symlinkSync('with space', path.join(folder, 'link'));
  fs.truncateSync(path.join(folder, 'with space/ü/line\nbreak'), 1_000_000);
  fs.chmodSync(path.join(folder, 'zero'), 0o4751);
  fs.chmodSync(path.join(folder, 'with space/ü/line\nbreak'), 0);
  fs.chmodSync(path.join(folder, 'empty'), 0o1777);
  // Times are kept to the microsecond, so these are the same afterwards.
  execFileSync('find', [folder, '-exec', 'touch', '-h', '-d', '@1500000000.5', '{}', '+']);
  fs.utimesSync(path.join(folder, 'zero'), 1e9 + 0.25, 1e9 + 0.25);
  fs.utimesSync(path.join(folder, 'large'), new Date(-1e12), new Date(-1e12));
  fs.lutimesSync(path.join(folder, 'link'), 1e9, 1e9);
  fs.utimesSync(path.join(folder, 'with space/ü'), 2e9, 2e9);
  fs.utimesSync(path.join(folder, 'with space'), 4e9, 4e9);
}

test('a folder comes back as it was sent: modes, times, links, holes, empty folders, names of every kind', async () => {
  const source = agent.path('source');
  makeTree(source);
  const reply = await get(source);
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'application/x-tar']);
  const tar = new Uint8Array(await reply.arrayBuffer());
  const sent = await post(agent.path('made/deep/copy'), tar);
  expect([sent.status, await sent.json()]).toEqual([
    200,
    { files: 5, folders: 3, links: 2, skipped: 0, bytes: 4_000_018 },
  ]);
  expect(treeAt(agent.path('made/deep/copy'))).toEqual(treeAt(source));
});

test('GNU tar reads what the agent packs, and the agent what GNU tar packs, with hard links', async () => {
  const source = agent.path('gnu');
  makeTree(source);
  fs.rmSync(Buffer.concat([Buffer.from(`${source}/`), Buffer.from([0xff, 0x61])]));
  const tar = Buffer.from(await (await get(source)).arrayBuffer());
  fs.mkdirSync(agent.path('by-gnu'));
  execFileSync('tar', ['xp', '-C', agent.path('by-gnu')], { input: tar });
  expect(treeAt(agent.path('by-gnu'))).toEqual(treeAt(source));

  fs.linkSync(path.join(source, 'large'), path.join(source, 'same'));
  fs.utimesSync(source, 1e9, 1e9);
  const packed = execFileSync('tar', ['c', '--format=posix', '-C', source, '.'], { maxBuffer: 1e8 });
  expect((await post(agent.path('from-gnu'), packed)).status).toBe(200);
  expect(treeAt(agent.path('from-gnu'))).toEqual(treeAt(source));
  const [large, same] = ['large', 'same'].map((name) => fs.statSync(agent.path('from-gnu', name)).ino);
  expect(large).toBe(same);
});

test('a name of GNU tar that is not UTF-8 keeps its bytes', async () => {
  fs.mkdirSync(agent.path('bytes'));
  fs.writeFileSync(Buffer.concat([Buffer.from(`${agent.path('bytes')}/`), Buffer.from([0xff, 0x61])]), 'not UTF-8');
  const packed = execFileSync('tar', ['c', '--format=gnu', '-C', agent.path('bytes'), '.']);
  expect((await post(agent.path('from-bytes'), packed)).status).toBe(200);
  expect(fs.readdirSync(agent.path('from-bytes'), 'buffer')).toEqual([Buffer.from([0xff, 0x61])]);
});

test('what is there is replaced, keeps its owner, and a folder that is there keeps its mode; other files stay', async () => {
  const there = agent.path('there');
  fs.mkdirSync(`${there}/sub`, { recursive: true, mode: 0o700 });
  for (const name of ['file', 'other']) fs.writeFileSync(`${there}/${name}`, 'old');
  fs.chownSync(`${there}/file`, 1, 2);
  fs.symlinkSync('other', `${there}/link`);
  const reader = fs.openSync(`${there}/file`, 'r');
  const tar = await tarOf(
    { name: './', type: 'directory', mode: 0o777 },
    { name: 'sub', type: 'directory', mode: 0o777 },
    { name: 'file', mode: 0o6755, content: 'new' },
    { name: 'link', content: 'no link now' },
  );
  expect((await post(there, tar)).status).toBe(200);
  const { uid, gid, mode } = fs.statSync(`${there}/file`);
  expect([uid, gid, mode & 0o7777]).toEqual([1, 2, 0o6755]);
  // A reader with the old file open still reads the old content.
  expect(fs.readFileSync(reader, 'utf8')).toBe('old');
  fs.closeSync(reader);
  expect(['file', 'link', 'other'].map((name) => fs.readFileSync(`${there}/${name}`, 'utf8'))).toEqual([
    ...['new', 'no link now', 'old'],
  ]);
  expect([there, `${there}/sub`].map((name) => fs.statSync(name).mode & 0o777)).toEqual([0o700, 0o700]);
});

test('sockets, pipes, devices and procfs are left out and counted in the entry of their folder', async () => {
  const source = agent.path('special');
  fs.mkdirSync(`${source}/sub`, { recursive: true });
  fs.mkdirSync(`${source}/proc`);
  fs.writeFileSync(`${source}/sub/file`, 'x');
  execFileSync('mkfifo', [`${source}/pipe`]);
  execFileSync('mknod', [`${source}/null`, 'c', '1', '3']);
  const server = net.createServer().listen(`${source}/sub/socket`);
  execFileSync('mount', ['-t', 'proc', 'proc', `${source}/proc`]);
  try {
    const entries = await entriesOf(new Uint8Array(await (await get(source)).arrayBuffer()));
    const found = entries.map(({ header }) => [
      header.name,
      (header.pax as Record<string, string>)?.['SANDBOX.skipped'],
    ]);
    expect(found.sort()).toEqual([
      ...[
        ['./', '2'],
        ['proc/', '1'],
        ['sub/', '1'],
        ['sub/file', undefined],
      ],
    ]);
  } finally {
    execFileSync('umount', [`${source}/proc`]);
    server.close();
  }
});

test.each<[string, TarEntry[], RegExp]>([
  ['a name above', [{ name: '../escaped', content: 'x' }], /no path below/],
  ['a name in the middle that leads up', [{ name: 'a/../../escaped', content: 'x' }], /no path below/],
  ['an absolute name', [{ name: '/tmp/escaped', content: 'x' }], /no path below/],
  ['a name with NUL', [{ name: 'x', pax: { path: 'a\0b' }, content: 'x' }], /no path below/],
  ['a name that is too long', [{ name: 'x', pax: { path: 'd/'.repeat(9000) }, content: 'x' }], /too long/],
  ['a hard link to outside', [{ name: 'x', type: 'link', linkname: '../../etc/passwd' }], /no path below/],
  ['a link to no name', [{ name: 'x', type: 'symlink', pax: { linkpath: 'a\0' }, linkname: 'x' }], /no name/],
  [
    'a file in place of a folder',
    [
      { name: 'x', type: 'directory' },
      { name: 'x', content: 'x' },
    ],
    /is a directory/,
  ],
  [
    'a folder in place of a file',
    [
      { name: 'x', content: 'x' },
      { name: 'x', type: 'directory' },
    ],
    /not a directory/,
  ],
])('an archive with %s is refused with 400', async (_, entries, message) => {
  const folder = agent.path('refused', String(Math.random()));
  const reply = await post(folder, await tarOf(...entries));
  expect([reply.status, await reply.json()]).toEqual([400, { message: expect.stringMatching(message) }]);
  expect(fs.readdirSync(path.dirname(folder), { recursive: true }).join()).not.toMatch(/upload|escaped/);
});

test('a device is not replaced, and one in an archive is left out and counted', async () => {
  const reply = await post('/dev', await tarOf({ name: 'null', content: 'x' }));
  expect([reply.status, await reply.json()]).toEqual([400, { message: '/dev/null: is not a regular file' }]);
  const skipped = await post(agent.path('devices'), await tarOf({ name: 'pipe', type: 'fifo' }));
  expect(await skipped.json()).toMatchObject({ files: 0, skipped: 1 });
  expect(fs.readdirSync(agent.path('devices'))).toEqual([]);
});

test('bytes that are no tar, and a tar without its end, are refused; whole files stay, no part of one', async () => {
  const tar = await tarOf({ name: 'whole', content: 'whole' }, { name: 'cut', content: randomBytes(100_000) });
  const pieces: [string, Uint8Array][] = [
    ['garbage', randomBytes(2048)],
    ['empty', new Uint8Array()],
    ['cut', tar.subarray(0, 50_000)],
    ['no end', tar.subarray(0, 1024)],
  ];
  for (const [name, bytes] of pieces) {
    const reply = await post(agent.path('cut', name), bytes);
    expect([name, reply.status]).toEqual([name, 400]);
  }
  expect(fs.readdirSync(agent.path('cut', 'cut'))).toEqual(['whole']);
});

test('an upload whose client leaves keeps the whole files and no part of one', async () => {
  const tar = await tarOf({ name: 'whole', content: 'whole' }, { name: 'cut', content: randomBytes(5_000_000) });
  const folder = agent.path('left');
  const sent = http.request(archiveUrl(folder), { method: 'POST', headers: headers() }).on('error', () => undefined);
  sent.write(tar.subarray(0, 3_000_000));
  await eventually(() => fs.existsSync(folder) && fs.readdirSync(folder).some((name) => name.startsWith('.upload')));
  sent.destroy();
  expect(await eventually(() => fs.readdirSync(folder).join() === 'whole')).toBe(true);
});

test('a folder that is not there, a file, a wrong method and a missing token are refused', async () => {
  fs.writeFileSync(agent.path('file'), 'x');
  expect((await get(agent.path('none'))).status).toBe(404);
  expect([(await get(agent.path('file'))).status, (await get('')).status]).toEqual([400, 400]);
  expect((await post(agent.path('file'), await tarOf({ name: 'x' }))).status).toBe(400);
  expect((await post(agent.path('file/x'), await tarOf({ name: 'x' }))).status).toBe(400);
  const put = await fetch(archiveUrl(agent.folder), { method: 'PUT', headers: headers() });
  expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, POST']);
  expect((await get(agent.folder, { 'x-access-token': null })).status).toBe(401);
  expect((await post(agent.folder, new Uint8Array(), { 'x-access-token': 'wrong' })).status).toBe(401);
});

test('a full disk is 507, and nothing of the file that did not fit is left', async () => {
  const disk = agent.path('disk');
  fs.mkdirSync(disk);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk]);
  try {
    const tar = await tarOf({ name: 'small', content: 'fits' }, { name: 'large', content: randomBytes(3_000_000) });
    const reply = await post(`${disk}/x`, tar);
    expect([reply.status, await reply.json()]).toEqual([507, { message: `${disk}/x/large: no space left on device` }]);
    expect(fs.readdirSync(`${disk}/x`)).toEqual(['small']);
  } finally {
    execFileSync('umount', [disk]);
  }
});

test('a file that becomes shorter breaks the reply off, so no client takes it for whole', async () => {
  const source = agent.path('shrinking');
  fs.mkdirSync(source);
  fs.writeFileSync(`${source}/file`, Buffer.alloc(64_000_000));
  const reply = await get(source);
  fs.truncateSync(`${source}/file`, 10);
  await expect(reply.arrayBuffer()).rejects.toThrow();
});

test('a folder of many empty entries and a slow reader need little memory', async () => {
  const source = agent.path('many');
  fs.mkdirSync(source);
  for (let i = 0; i < 120_000; i++) fs.writeFileSync(`${source}/${'n'.repeat(90)}${i}`, '');
  const before = agent.privateMib();
  const reply = await get(source);
  const reader = reply.body!.getReader();
  const first = await reader.read();
  let most = 0;
  // The reader takes nothing while the agent could pack everything, which would be 180 MB.
  for (let i = 0; i < 20; i++) {
    most = Math.max(most, agent.privateMib());
    expect((await fetch(`${agent.address}/health`)).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  let length = first.value!.length;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) length += piece.value.length;
  expect(length).toBeGreaterThan(120_000 * 1024);
  expect(most - before).toBeLessThan(120);
});
