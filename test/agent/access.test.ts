import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { fileSignature } from '../../agent/http/access.ts';
import { platformToken, sandbox, TestAgent, token } from './support/agent.ts';

let agent: TestAgent;
let open: TestAgent;
beforeAll(async () => {
  [agent, open] = await Promise.all([
    TestAgent.start(),
    TestAgent.start({ boot: { platformToken, init: sandbox({ accessToken: null }) } }),
  ]);
  fs.writeFileSync(agent.path('secret.txt'), 'content');
});
afterAll(() => Promise.all([agent.stop(), open.stop()]));

const procedures = [
  'Filesystem/Stat',
  'Filesystem/CreateWatcher',
  'Filesystem/WatchDir',
  'Process/Start',
  'Process/StreamInput',
  'ExecutionService/Execute',
  'ContextService/CreateContext',
];

test.each(procedures)('%s without the token, or with a wrong one, is 401 unauthenticated', async (procedure) => {
  for (const given of [null, '', 'wrong', `${token}x`, token.slice(1), 'ÿ'.repeat(token.length)]) {
    expect(await agent.post(procedure, {}, { 'x-access-token': given })).toMatchObject({
      status: 401,
      json: { code: 'unauthenticated' },
    });
  }
});

test('files without the token are 401 with a message', async () => {
  for (const request of [
    ['GET', `/download${agent.path('secret.txt')}`],
    ['HEAD', `/download${agent.path('secret.txt')}`],
    ['POST', '/upload'],
  ] as const) {
    const reply = await fetch(agent.address + request[1], { method: request[0] });
    expect(reply.status).toBe(401);
    if (request[0] !== 'HEAD') expect(await reply.json()).toEqual({ message: 'access token missing or wrong' });
  }
});

test('an open sandbox serves every client', async () => {
  expect((await open.post('Process/List', {}, { 'x-access-token': null, authorization: null })).status).toBe(200);
  expect((await fetch(`${open.address}/download/etc/passwd`)).status).toBe(200);
});

test('watchers are polled and removed without the token, with only their id', async () => {
  const { json } = await agent.post('Filesystem/CreateWatcher', { path: agent.folder });
  const without = { 'x-access-token': null, authorization: null };
  fs.writeFileSync(agent.path('seen'), '');
  let events: { name: string }[] = [];
  while (events.length === 0) events = (await agent.post('Filesystem/GetWatcherEvents', json, without)).json.events;
  expect(events[0]!.name).toBe('seen');
  expect((await agent.post('Filesystem/RemoveWatcher', json, without)).status).toBe(200);
  expect(await agent.post('Filesystem/GetWatcherEvents', json, without)).toMatchObject({
    status: 404,
    json: { code: 'not_found', message: expect.stringContaining('not found') },
  });
});

test('processes do not see the tokens', async () => {
  const probe = await fetch(`${agent.address}/platform/probe`, {
    method: 'POST',
    headers: { 'x-platform-token': platformToken },
    body: JSON.stringify({ command: ['/bin/sh', '-c', '! env | grep -E "AGENT_|tok-|platform-"'], timeoutSeconds: 60 }),
  });
  expect(await probe.json()).toEqual({ exitCode: 0 });
});

test('the tokens are in no reply and no log', async () => {
  const seen: string[] = [];
  for (const body of ['{', '{"path":"/nowhere"}', '{"path":7}', '"']) {
    seen.push(JSON.stringify(await agent.post('Filesystem/Stat', body)));
  }
  seen.push(await (await fetch(`${agent.address}/download/nowhere`, { headers: { 'x-access-token': token } })).text());
  seen.push(agent.log);
  for (const text of seen) {
    expect(text).not.toContain(token);
    expect(text).not.toContain(platformToken);
  }
});

test('a page of any origin may call, and its preflight allows it', async () => {
  const preflight = await fetch(`${agent.address}/sandboxagent.Process/List`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://example.org',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'x-access-token',
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get('access-control-allow-headers')).toBe('x-access-token');
  const reply = await fetch(`${agent.address}/sandboxagent.Process/List`, {
    method: 'POST',
    headers: { origin: 'https://example.org', 'content-type': 'application/json', 'x-access-token': token },
    body: '{}',
  });
  expect(reply.headers.get('access-control-allow-origin')).toBe('*');
});

const inAnHour = () => String(Math.floor(Date.now() / 1000) + 3600);
const signedUrl = (
  path: string,
  changes: Record<string, string | null> = {},
  over: Partial<Parameters<typeof fileSignature>[0]> = {},
) => {
  const expiration = 'signature_expiration' in changes ? changes.signature_expiration! : inAnHour();
  const signature = fileSignature({ path, operation: 'read', username: 'root', expiration, ...over }, token);
  const query = new URLSearchParams({ signature });
  const all = { username: 'root', signature_expiration: expiration, ...changes };
  for (const [name, value] of Object.entries(all)) if (value !== null) query.set(name, value);
  return `${agent.address}/download${path}?${query}`;
};

test('the signature is v1_ and the unpadded base64 of the SHA-256', () => {
  const signed = { path: '/a', operation: 'read', username: 'root', expiration: null } as const;
  // printf '/a:read:root:tok-0123456789abcdef' | openssl dgst -sha256 -binary | base64 | tr -d =
  expect(fileSignature(signed, token)).toBe('v1_toCM1cYxNmli74o0H5aRBF4Rl4ZBZ4wH53s64yfS93Q');
});

test('a signed URL opens its file until it expires', async () => {
  const path = agent.path('secret.txt');
  expect(await (await fetch(signedUrl(path))).text()).toBe('content');
  expect(await (await fetch(signedUrl(path, { signature_expiration: null }))).text()).toBe('content');
  expect((await fetch(signedUrl(path, { username: null }))).status).toBe(200);
});

test('a signed URL is 401 for another file, operation, user, time, or once it has expired', async () => {
  const path = agent.path('secret.txt');
  const past = '1700000000';
  for (const url of [
    signedUrl(path).replace('secret.txt', 'other.txt'),
    signedUrl(path, {}, { operation: 'write' }),
    signedUrl(path, { username: 'eve' }),
    signedUrl(path, {}, { expiration: '9999999999' }),
    signedUrl(path, { signature_expiration: past }),
    signedUrl(path, { signature_expiration: 'never' }),
    signedUrl(path, { signature: 'v1_' }),
  ]) {
    const reply = await fetch(url);
    expect([url, reply.status]).toEqual([url, 401]);
  }
});

test('a user name with colons is refused: it would turn a signature for one file into one for another', async () => {
  const path = agent.path('secret.txt');
  const expiration = inAnHour();
  // A signature for reading `<path>:write:y`, made in good faith.
  const signature = fileSignature({ path: `${path}:write:y`, operation: 'read', username: 'root', expiration }, token);
  const query = new URLSearchParams({ signature, signature_expiration: expiration, username: 'y:read:root', path });
  const form = new FormData();
  form.set('file', new Blob(['overwritten']), 'x');
  const upload = await fetch(`${agent.address}/upload?${query}`, { method: 'POST', body: form });
  expect([upload.status, fs.readFileSync(path, 'utf8')]).toEqual([401, 'content']);
  // Nor in the other direction, and not for a user who really has such a name.
  const written = { username: 'y:write:root', operation: 'write' } as const;
  expect((await fetch(signedUrl(path, { username: 'y:write:root' }, written))).status).toBe(401);
  expect((await fetch(signedUrl(path, { username: 'a:b' }, { username: 'a:b' }))).status).toBe(401);
  expect((await fetch(signedUrl(path, { username: 'eve' }, { username: 'eve' }))).status).toBe(200);
});

test.each(['1e99', 'Infinity', '0x7fffffff', ' 9999999999', '9999999999 ', '-1', '', '99999999999999999999'])(
  'an expiry of %j is invalid, even with a valid signature',
  async (expiration) => {
    const path = agent.path('secret.txt');
    const reply = await fetch(signedUrl(path, { signature_expiration: expiration }, { expiration }));
    expect(reply.status).toBe(401);
  },
);

test('a signature with an unescaped plus sign is accepted', async () => {
  const path = agent.path('secret.txt');
  let expiry = Number(inAnHour());
  const signatureAt = (at: number) =>
    fileSignature({ path, operation: 'read', username: 'root', expiration: String(at) }, token);
  while (!signatureAt(expiry).includes('+')) expiry += 1;
  const query = `signature=${signatureAt(expiry)}&signature_expiration=${expiry}`;
  expect((await fetch(`${agent.address}/download${path}?${query}`)).status).toBe(200);
});

test('a signature for an absolute path does not open the file of that name below the home folder', async () => {
  const name = `only-at-home-${process.pid}.txt`;
  const file = join(os.userInfo().homedir, name);
  fs.writeFileSync(file, 'at home');
  try {
    const status = async (signedPath: string) => {
      const signature = fileSignature(
        { path: signedPath, operation: 'read', username: 'root', expiration: null },
        token,
      );
      return (await fetch(`${agent.address}/download/${name}?${new URLSearchParams({ signature })}`)).status;
    };
    expect(await status(`/${name}`)).toBe(404);
    expect(await status(name)).toBe(200);
  } finally {
    fs.rmSync(file);
  }
});

test('a signed upload is stored at the path of its URL, in the query or in the form', async () => {
  const path = agent.path('signed.txt');
  const expiration = inAnHour();
  const signature = fileSignature({ path, operation: 'write', username: 'root', expiration }, token);
  const query = new URLSearchParams({ signature, signature_expiration: expiration });
  const form = new FormData();
  form.set('file', new Blob(['signed']), 'x');
  const inQuery = await fetch(`${agent.address}/upload?${query}&path=${encodeURIComponent(path)}`, {
    method: 'POST',
    body: form,
  });
  expect([inQuery.status, await inQuery.text()]).toEqual([200, `uploaded: ${path}`]);
  expect(fs.readFileSync(path, 'utf8')).toBe('signed');

  const pathFirst = new FormData();
  pathFirst.set('path', path);
  pathFirst.set('file', new Blob(['again']), 'x');
  expect((await fetch(`${agent.address}/upload?${query}`, { method: 'POST', body: pathFirst })).status).toBe(200);
  expect(fs.readFileSync(path, 'utf8')).toBe('again');

  const elsewhere = new FormData();
  elsewhere.set('path', agent.path('elsewhere.txt'));
  elsewhere.set('file', new Blob(['evil']), 'x');
  expect((await fetch(`${agent.address}/upload?${query}`, { method: 'POST', body: elsewhere })).status).toBe(401);
  expect(fs.existsSync(agent.path('elsewhere.txt'))).toBe(false);

  const fileFirst = new FormData();
  fileFirst.set('file', new Blob(['file first']), 'x');
  fileFirst.set('path', path);
  const reply = await fetch(`${agent.address}/upload?${query}`, { method: 'POST', body: fileFirst });
  expect([reply.status, await reply.text()]).toEqual([200, `uploaded: ${path}`]);
  expect(fs.readFileSync(path, 'utf8')).toBe('file first');
});

test('a file before a path without a signature is not stored, and leaves nothing behind', async () => {
  const waitingFolder = fs.mkdtempSync(join(os.tmpdir(), 'agent-waiting-'));
  const own = await TestAgent.start({ env: { TMPDIR: waitingFolder } });
  const path = own.path('unsigned.txt');
  const signature = fileSignature({ path, operation: 'write', username: 'root', expiration: null }, token);
  const wrong = new FormData();
  wrong.set('file', new Blob(['x'.repeat(1024 * 1024)]), 'x');
  wrong.set('path', own.path('elsewhere.txt'));
  for (const query of [`signature=${encodeURIComponent(signature)}`, 'signature=v1_nonsense']) {
    const reply = await fetch(`${own.address}/upload?${query}`, { method: 'POST', body: wrong });
    expect(reply.status).toBe(401);
  }
  expect(fs.existsSync(own.path('elsewhere.txt'))).toBe(false);
  expect(fs.readdirSync(waitingFolder)).toEqual([]);
  await own.stop();
  fs.rmSync(waitingFolder, { recursive: true });
});

test('content that waits for its signed path has a limit, per upload and in total, and is released again', async () => {
  const path = agent.path('bounded.bin');
  const signature = fileSignature({ path, operation: 'write', username: 'root', expiration: null }, token);
  const url = `${agent.address}/upload?signature=${encodeURIComponent(signature)}`;
  const send = async (mebibytes: number) => {
    const form = new FormData();
    form.set('file', new Blob([new Uint8Array(mebibytes * 1024 * 1024)]), 'x');
    form.set('path', path);
    return (await fetch(url, { method: 'POST', body: form })).status;
  };
  // A reply before the end of the body may reach the client as a reset.
  expect([413, 'reset']).toContain(await send(65).catch(() => 'reset'));
  expect(fs.existsSync(path)).toBe(false);
  for (let round = 0; round < 3; round++) expect(await send(30)).toBe(200);
  expect(fs.statSync(path).size).toBe(30 * 1024 * 1024);
});
