import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually, headers, TestAgent } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

const upload = (form: FormData, query = '') =>
  fetch(`${agent.address}/upload${query}`, { method: 'POST', headers: headers(), body: form });
const download = (path: string, header = {}, method = 'GET') =>
  fetch(`${agent.address}/download${path.split('/').map(encodeURIComponent).join('/')}`, {
    method,
    headers: headers(header),
  });

const createForm = (...fields: ['path' | 'file' | 'other', string | Uint8Array][]) => {
  const form = new FormData();
  for (const [name, value] of fields) {
    if (name === 'file') form.append('file', new Blob([value as never]), 'name.bin');
    else form.append(name, value as string);
  }
  return form;
};

test.each([
  ['path before file', (path: string, bytes: Uint8Array) => createForm(['path', path], ['file', bytes])],
  ['file before path', (path: string, bytes: Uint8Array) => createForm(['file', bytes], ['path', path])],
  [
    'unknown fields',
    (path: string, bytes: Uint8Array) => createForm(['other', 'x'], ['path', path], ['other', ''], ['file', bytes]),
  ],
] as const)('an upload with %s is stored byte for byte, parents made', async (name, form) => {
  for (const size of [0, 1, 100, 70_000, 3_000_000]) {
    const path = agent.path('up', name, `ü ${size}`, 'file');
    const bytes = randomBytes(size);
    const reply = await upload(form(path, bytes));
    expect([reply.status, await reply.text()]).toEqual([200, `uploaded: ${path}`]);
    expect(fs.readFileSync(path).equals(bytes)).toBe(true);
    expect(fs.readdirSync(agent.path('up', name, `ü ${size}`))).toEqual(['file']);
  }
});

test('an upload replaces a file atomically, keeps its mode and owner, and follows a link', async () => {
  const path = agent.path('replaced');
  fs.writeFileSync(path, 'old');
  fs.chownSync(path, 1, 2);
  fs.chmodSync(path, 0o640);
  fs.symlinkSync(path, agent.path('link'));
  const reader = fs.openSync(path, 'r');
  expect((await upload(createForm(['path', agent.path('link')], ['file', 'new']))).status).toBe(200);
  expect(fs.readFileSync(path, 'utf8')).toBe('new');
  expect(fs.lstatSync(agent.path('link')).isSymbolicLink()).toBe(true);
  const stat = fs.statSync(path);
  expect([stat.uid, stat.gid, stat.mode & 0o7777]).toEqual([1, 2, 0o640]);
  // A reader with the old file open still reads the old content.
  expect(fs.readFileSync(reader, 'utf8')).toBe('old');
  fs.closeSync(reader);
});

test('an upload through a dangling link creates its target, with folders', async () => {
  fs.symlinkSync('new-folder/hop', agent.path('dangling'));
  fs.mkdirSync(agent.path('new-folder'));
  fs.symlinkSync('../other/target', agent.path('new-folder', 'hop'));
  for (const parts of [
    [
      ['path', agent.path('dangling')],
      ['file', 'content'],
    ],
    [
      ['file', 'later path'],
      ['path', agent.path('dangling')],
    ],
  ] as Parameters<typeof createForm>[]) {
    fs.rmSync(agent.path('other'), { recursive: true, force: true });
    expect((await upload(createForm(...parts))).status).toBe(200);
    expect(fs.readFileSync(agent.path('other', 'target'), 'utf8')).toBe(parts.find(([name]) => name === 'file')![1]);
    expect(fs.lstatSync(agent.path('dangling')).isSymbolicLink()).toBe(true);
  }
  fs.symlinkSync('loop', agent.path('loop'));
  expect((await upload(createForm(['path', agent.path('loop')], ['file', 'x']))).status).toBe(400);
});

test('a mounted file, such as /etc/hosts of a container, is written in place', async () => {
  fs.writeFileSync(agent.path('behind'), 'old');
  fs.writeFileSync(agent.path('mounted-file'), '');
  execFileSync('mount', ['--bind', agent.path('behind'), agent.path('mounted-file')]);
  try {
    expect((await upload(createForm(['path', agent.path('mounted-file')], ['file', 'new']))).status).toBe(200);
    expect(fs.readFileSync(agent.path('behind'), 'utf8')).toBe('new');
  } finally {
    execFileSync('umount', [agent.path('mounted-file')]);
  }
});

test.each([
  ['no file', () => upload(createForm(['path', agent.path('x')])), 400, /no file/],
  ['no path', () => upload(createForm(['file', 'x'])), 400, /no path/],
  [
    'two files',
    () => upload(createForm(['path', agent.path('x')], ['file', 'a'], ['file', 'b'])),
    400,
    /more than one file/,
  ],
  [
    'two paths',
    () => upload(createForm(['path', agent.path('x')], ['path', agent.path('y')], ['file', 'a'])),
    400,
    /two different paths/,
  ],
  ['an empty path', () => upload(createForm(['path', ''], ['file', 'a'])), 400, /path must not be empty/],
  [
    'a path that is a directory',
    () => upload(createForm(['path', agent.folder], ['file', 'a'])),
    400,
    /is a directory/,
  ],
  [
    'a path that is a device',
    () => upload(createForm(['path', '/dev/null'], ['file', 'a'])),
    400,
    /not a regular file/,
  ],
  ['a path below /proc', () => upload(createForm(['path', '/proc/nowhere/x'], ['file', 'a'])), 404, /no such file/],
  ['a path below a file', () => upload(createForm(['path', '/etc/passwd/x'], ['file', 'a'])), 400, /not a directory/],
  ['a path too long', () => upload(createForm(['path', '/x'.repeat(20_000)], ['file', 'a'])), 400, /too long/],
  [
    'another content type',
    () =>
      fetch(`${agent.address}/upload`, {
        method: 'POST',
        headers: headers({ 'content-type': 'application/json' }),
        body: '{}',
      }),
    400,
    /multipart/,
  ],
  ['another method', () => fetch(`${agent.address}/upload`, { headers: headers() }), 405, /POST/],
] as const)('an upload with %s is refused with a message, and leaves nothing behind', async (_, send, status, text) => {
  const reply = await send();
  expect(reply.headers.get('content-type')).toBe('application/json');
  expect([reply.status, (await reply.json()) as unknown]).toEqual([status, { message: expect.stringMatching(text) }]);
  expect(fs.existsSync(agent.path('x'))).toBe(false);
  expect(fs.statSync('/dev/null').isCharacterDevice()).toBe(true);
  expect(fs.readdirSync(agent.folder).filter((name) => name.startsWith('.upload'))).toEqual([]);
});

test('an upload cut off halfway leaves the old file, and nothing else', async () => {
  const path = agent.path('cut', 'file');
  fs.mkdirSync(agent.path('cut'));
  fs.writeFileSync(path, 'old');
  const request = http.request(`${agent.address}/upload`, {
    method: 'POST',
    headers: headers({ 'content-type': 'multipart/form-data; boundary=b' }),
  });
  request.on('error', () => {});
  request.write(
    `--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n${path}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n`,
  );
  request.write(Buffer.alloc(2_000_000));
  await eventually(() => fs.readdirSync(agent.path('cut')).length === 2);
  request.destroy();
  await eventually(() => fs.readdirSync(agent.path('cut')).length === 1);
  expect(fs.readFileSync(path, 'utf8')).toBe('old');
});

test('a full disk is 507 with its name, even while the client is sending, and the old file stays', async () => {
  const disk = agent.path('disk');
  fs.mkdirSync(disk);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]);
  try {
    fs.writeFileSync(`${disk}/file`, 'old');
    const reply = await upload(createForm(['path', `${disk}/file`], ['file', Buffer.alloc(40_000_000)]));
    expect(reply.status).toBe(507);
    expect(await reply.json()).toEqual({ message: expect.stringContaining('no space left on device') });
    expect(fs.readFileSync(`${disk}/file`, 'utf8')).toBe('old');
    expect(fs.readdirSync(disk)).toEqual(['file']);
  } finally {
    execFileSync('umount', [disk]);
  }
});

/** Any size up to the disk's: TRANSFER_MB=10737 npm test -- test/agent/transfer */
const megabytes = Number(process.env.TRANSFER_MB ?? 1074);

test(
  `${megabytes} MB up and down in little memory`,
  async () => {
    await eventually(() => agent.privateMib() > 0);
    const before = agent.privateMib();
    let most = 0;
    const sampling = setInterval(() => {
      most = Math.max(most, agent.privateMib());
    }, 20);
    const path = agent.path('large');
    const block = randomBytes(1_000_000);
    const sent = createHash('md5');
    const head = `--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n${path}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n`;
    const body = Readable.from(
      (function* () {
        yield Buffer.from(head);
        for (let i = 0; i < megabytes; i++) {
          sent.update(block);
          yield block;
        }
        yield Buffer.from('\r\n--b--\r\n');
      })(),
    );
    const status = await new Promise((resolve, reject) => {
      const request = http.request(`${agent.address}/upload`, {
        method: 'POST',
        headers: headers({ 'content-type': 'multipart/form-data; boundary=b' }),
      });
      request.on('response', (reply) => resolve(reply.resume().statusCode));
      request.on('error', reject);
      body.pipe(request);
    });
    expect(status).toBe(200);
    expect(fs.statSync(path).size).toBe(megabytes * block.length);
    const received = createHash('md5');
    for await (const chunk of (await download(path)).body!) received.update(chunk);
    clearInterval(sampling);
    expect(received.digest('hex')).toBe(sent.digest('hex'));
    // Independent of the length: pieces in transit that are not yet collected.
    process.stdout.write(`${megabytes} MB up and down: at most ${(most - before).toFixed(1)} MiB more than before\n`);
    expect(most - before).toBeLessThan(100);
    fs.rmSync(path);
  },
  180_000 + megabytes * 50,
);

test('a reader that stalls during a download holds only its piece', async () => {
  const path = agent.path('sparse');
  fs.writeFileSync(path, '');
  fs.truncateSync(path, 10 * 2 ** 30);
  const before = agent.privateMib();
  const stalled = await Promise.all(
    Array.from(
      { length: 5 },
      () =>
        new Promise<http.IncomingMessage>((resolve, reject) => {
          http
            .get(`${agent.address}/download${path}`, { headers: headers(), agent: false }, (reply) =>
              resolve(reply.pause()),
            )
            .on('error', reject);
        }),
    ),
  );
  expect(stalled[0]!.headers['content-length']).toBe(String(10 * 2 ** 30));
  expect((await agent.post('Filesystem/Stat', { path: '/' })).status).toBe(200);
  expect(agent.privateMib() - before).toBeLessThan(30);
  for (const reply of stalled) reply.destroy();
  await eventually(() => openFiles(path) === 0);
  fs.rmSync(path);
});

const openFiles = (path: string) =>
  fs.readdirSync(`/proc/${agent.process.pid}/fd`).filter((fd) => {
    try {
      return fs.readlinkSync(`/proc/${agent.process.pid}/fd/${fd}`) === path;
    } catch {
      return false;
    }
  }).length;

test('a download has name, length, type and validators', async () => {
  const path = agent.path('näme "x".txt');
  fs.writeFileSync(path, 'content');
  fs.utimesSync(path, 1_700_000_000, 1_700_000_000);
  const reply = await download(path);
  expect(reply.status).toBe(200);
  expect(Object.fromEntries(reply.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-length': '7',
    'accept-ranges': 'bytes',
    'last-modified': 'Tue, 14 Nov 2023 22:13:20 GMT',
    'content-disposition': `attachment; filename="n_me _x_.txt"; filename*=UTF-8''n%C3%A4me%20%22x%22.txt`,
  });
  expect(await reply.text()).toBe('content');
  const head = await download(path, {}, 'HEAD');
  expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '7', '']);
});

test.each([
  ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
  ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
  ['bytes=-3', 206, '789', 'bytes 7-9/10'],
  ['bytes=8-100', 206, '89', 'bytes 8-9/10'],
  ['bytes=-100', 206, '0123456789', 'bytes 0-9/10'],
  ['bytes=9-9', 206, '9', 'bytes 9-9/10'],
  ['bytes=10-', 416, null, 'bytes */10'],
  ['bytes=-0', 416, null, 'bytes */10'],
  ['bytes=0-1,4-5', 200, '0123456789', null],
  ['bytes=5-2', 200, '0123456789', null],
  ['lines=0-1', 200, '0123456789', null],
  ['bytes=x', 200, '0123456789', null],
])('range %s answers %i', async (range, status, content, contentRange) => {
  const path = agent.path('ranged');
  fs.writeFileSync(path, '0123456789');
  const reply = await download(path, { range });
  expect([reply.status, reply.headers.get('content-range')]).toEqual([status, contentRange]);
  const text = await reply.text();
  if (content === null) expect(JSON.parse(text)).toEqual({ message: expect.any(String) });
  else expect(text).toBe(content);
});

test('a range of a file of many pieces is exact', async () => {
  const path = agent.path('pieces');
  const bytes = randomBytes(3_000_000);
  fs.writeFileSync(path, bytes);
  const reply = await download(path, { range: 'bytes=123456-2345678' });
  expect(Buffer.from(await reply.arrayBuffer()).equals(bytes.subarray(123_456, 2_345_679))).toBe(true);
});

test('If-Range and If-None-Match follow the content', async () => {
  const path = agent.path('validated');
  fs.writeFileSync(path, 'before');
  const first = await download(path);
  const etag = first.headers.get('etag')!;
  const modified = first.headers.get('last-modified')!;
  expect((await download(path, { 'if-none-match': etag })).status).toBe(304);
  expect((await download(path, { 'if-none-match': `"other", W/${etag}` })).status).toBe(304);
  expect((await download(path, { range: 'bytes=0-0', 'if-range': etag })).status).toBe(206);
  expect((await download(path, { range: 'bytes=0-0', 'if-range': modified })).status).toBe(206);
  fs.writeFileSync(path, 'after!');
  fs.utimesSync(path, 1, 1);
  expect((await download(path, { 'if-none-match': etag })).status).toBe(200);
  const stale = await download(path, { range: 'bytes=0-0', 'if-range': etag });
  expect([stale.status, await stale.text()]).toEqual([200, 'after!']);
});

test('an impossible download returns the reason', async () => {
  execFileSync('mkfifo', [agent.path('fifo')]);
  for (const [path, status, text] of [
    [agent.path('missing'), 404, /not found.*no such file or directory/],
    [agent.folder, 400, /is a directory/],
    [agent.path('fifo'), 400, /not a regular file/],
    ['/dev/zero', 400, /not a regular file/],
  ] as const) {
    const reply = await download(path);
    expect([reply.status, await reply.json()]).toEqual([status, { message: expect.stringMatching(text) }]);
  }
  const malformed = await fetch(`${agent.address}/download/%ff%zz`, { headers: headers() });
  expect(malformed.status).toBe(400);
});

test('files of procfs, empty files and odd spellings of a path are served', async () => {
  expect(await (await download('/proc/version')).text()).toMatch(/^Linux/);
  const fromSysfs = await download('/sys/class/net/lo/mtu');
  expect([fromSysfs.status, fromSysfs.headers.get('content-length')]).toEqual([200, '6']);
  expect(await fromSysfs.text()).toBe('65536\n');
  const range = await download('/sys/class/net/lo/mtu', { range: 'bytes=1-2' });
  expect([range.status, range.headers.get('content-range'), await range.text()]).toEqual([206, 'bytes 1-2/6', '55']);
  fs.writeFileSync(agent.path('empty'), '');
  const empty = await download(agent.path('empty'));
  expect([empty.headers.get('content-length'), await empty.text()]).toEqual(['0', '']);
  fs.writeFileSync(agent.path('spelled'), 'here');
  for (const spelling of [
    agent.path('spelled').slice(1),
    encodeURIComponent(agent.path('spelled')),
    `${agent.folder.slice(1)}/./x/..//spelled`,
    `..%2f..${agent.path('spelled')}`,
  ]) {
    expect(await (await fetch(`${agent.address}/download/${spelling}`, { headers: headers() })).text()).toBe('here');
  }
});

test('files of any name are uploaded, listed and downloaded', async () => {
  const names = [
    ...['a b', `q'"\`$x`, '\u{1F600}', 'e\u0301', '-rf', 'a%2Fb', 'a+b', 'a?b#c', 'back\\slash', 'tab\t'],
    ...[' lead', 'trail ', '*', '%', '...', 'x'.repeat(255)],
  ];
  for (const name of names) {
    const path = agent.path('names', name);
    expect((await upload(createForm(['path', path], ['file', name]))).status).toBe(200);
    expect(await (await download(path)).text()).toBe(name);
  }
  // A form turns the line end of a field into two characters, so this file is made in another way.
  names.push('new\nline');
  fs.writeFileSync(agent.path('names/new\nline'), 'new\nline');
  expect(await (await download(agent.path('names/new\nline'))).text()).toBe('new\nline');
  const { entries } = (await agent.post('Filesystem/ListDir', { path: agent.path('names') })).json;
  expect(entries.map((entry: { name: string }) => entry.name).sort()).toEqual(names.sort());
});

test('a relative path means the same for upload and download', async () => {
  const name = `relative-${process.pid}.txt`;
  const reply = await upload(createForm(['path', name], ['file', 'at home']));
  const path = (await reply.text()).replace('uploaded: ', '');
  try {
    expect(await (await fetch(`${agent.address}/download/${name}`, { headers: headers() })).text()).toBe('at home');
  } finally {
    fs.rmSync(path);
  }
});

test('twenty uploads to one path leave one complete file', async () => {
  const path = agent.path('contested');
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => upload(createForm(['path', path], ['file', Buffer.alloc(200_000, i)]))),
  );
  const bytes = fs.readFileSync(path);
  expect(bytes.length).toBe(200_000);
  expect(bytes.every((byte) => byte === bytes[0])).toBe(true);
});
