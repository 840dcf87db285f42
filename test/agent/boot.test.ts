import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { writeHostname } from '../../agent/boot/hostname.ts';
import { eventually, type Json, platformToken, sandbox, TestAgent, token } from './support/agent.ts';

let agent: TestAgent;
afterEach(() => agent?.stop());

const platform = (path: string, body?: object) =>
  fetch(`${agent.address}/platform/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'x-platform-token': platformToken },
    body: body && JSON.stringify(body),
  });
const readSystemCall = process.arch === 'arm64' ? 63 : 0;
const state = async () => (await platform('state')).json() as Promise<Json>;

test('before it has its sandbox the agent serves only /health and the platform', async () => {
  agent = await TestAgent.start({ boot: { platformToken } });
  expect(await (await fetch(`${agent.address}/health`)).text()).toBe('OK');
  expect(await state()).toEqual({ sandboxId: null, command: null });
  expect(await agent.post('Filesystem/Stat', { path: '/' })).toMatchObject({
    status: 503,
    json: { code: 'unavailable' },
  });

  expect((await platform('init', sandbox({ sandboxId: 'sbx-late' }))).status).toBe(204);
  expect(await agent.post('Filesystem/Stat', { path: '/' })).toMatchObject({ status: 200 });
  expect((await state()).sandboxId).toBe('sbx-late');
});

test('a repeated init is accepted for the same sandbox and refused for another', async () => {
  agent = await TestAgent.start({ boot: { platformToken, init: sandbox() } });
  expect((await platform('init', sandbox())).status).toBe(204);
  expect((await platform('init', sandbox({ sandboxId: 'sbx-other' }))).status).toBe(409);
});

test('a malformed init is 400 with the reason, and a good one is still accepted', async () => {
  agent = await TestAgent.start({ boot: { platformToken } });
  for (const [init, text] of [
    [{}, /sandboxId/],
    [sandbox({ accessToken: 7 }), /accessToken/],
    [sandbox({ env: { A: 1 } }), /env/],
    [sandbox({ command: { cmd: 'ls' } }), /cmd/],
    [[], /object/],
  ] as const) {
    const reply = await platform('init', init as object);
    expect(reply.status).toBe(400);
    expect(((await reply.json()) as Json).message).toMatch(text);
  }
  expect((await platform('init', sandbox())).status).toBe(204);
});

test('platform paths without the platform token, or with the access token, are not found', async () => {
  agent = await TestAgent.start();
  for (const headers of [
    {},
    { 'x-platform-token': 'wrong' },
    { 'x-platform-token': token },
    { 'x-access-token': token },
  ]) {
    const reply = await fetch(`${agent.address}/platform/state`, { headers: headers as Record<string, string> });
    expect(reply.status).toBe(404);
  }
});

test('the command runs with the sandbox variables, and its code and last 8 KiB are reported and kept in the file', async () => {
  agent = await TestAgent.start({
    boot: {
      platformToken,
      init: sandbox({
        env: { GREETING: 'hello' },
        command: {
          entrypoint: ['/bin/sh', '-c'],
          cmd: ['head -c 20000 /dev/zero | tr "\\0" x; echo "$GREETING $AGENT_PORT."; exit 3'],
        },
      }),
    },
  });
  const { command } = await eventually(async () => {
    const report = await state();
    return report.command.running === false && report;
  });
  expect(command).toMatchObject({ running: false, exitCode: 3, pid: expect.any(Number) });
  const tail = Buffer.from(command.outputTail, 'base64').toString();
  expect(tail).toHaveLength(8192);
  expect(tail.endsWith('xhello .\n')).toBe(true);
  await eventually(() => fs.readFileSync(agent.path('run', 'command.tail'), 'utf8') === tail);
});

test('a command that cannot be run reports the reason and ends with 127', async () => {
  agent = await TestAgent.start({
    boot: { platformToken, init: sandbox({ command: { entrypoint: [], cmd: ['/no/such/program'] } }) },
  });
  const { command } = await eventually(async () => {
    const report = await state();
    return report.command.running === false && report;
  });
  expect(command.exitCode).toBe(127);
  expect(Buffer.from(command.outputTail, 'base64').toString()).toContain('ENOENT');
});

test('the command runs as the user and in the folder of init', async () => {
  agent = await TestAgent.start({
    boot: {
      platformToken,
      init: sandbox({
        cwd: '/usr',
        user: '65534:65534',
        command: { entrypoint: [], cmd: ['/bin/sh', '-c', 'id -u; pwd'] },
      }),
    },
  });
  const { command } = await eventually(async () => {
    const report = await state();
    return report.command.running === false && report;
  });
  expect(Buffer.from(command.outputTail, 'base64').toString()).toBe('65534\n/usr\n');
});

test('probes give the exit code, 124 when they take too long, 127 when there is no such program', async () => {
  agent = await TestAgent.start();
  const probe = async (command: string[], timeoutSeconds = 60) =>
    ((await (await platform('probe', { command, timeoutSeconds })).json()) as Json).exitCode;
  expect(await probe(['true'])).toBe(0);
  expect(await probe(['/bin/sh', '-c', 'exit 7'])).toBe(7);
  expect(await probe(['/no/such/program'])).toBe(127);
  expect(await probe(['sleep', '60'], 0.1)).toBe(124);
  expect((await platform('probe', { command: [] })).status).toBe(400);
});

test('with an empty standard input the agent runs from its environment', async () => {
  agent = await TestAgent.start({ boot: null, env: { AGENT_ACCESS_TOKEN: token, AGENT_SANDBOX_ID: 'sbx-alone' } });
  expect((await agent.post('Process/List', {})).status).toBe(200);
  expect((await agent.post('Process/List', {}, { 'x-access-token': null })).status).toBe(401);
});

test('a prepared agent loads everything before its boot document, opens no port before it, and then serves like any other', async () => {
  const dist = path.resolve(import.meta.dirname, '../../agent/dist');
  const bundleBytes = ['sandbox.js', 'sandbox.cache'].reduce(
    (sum, name) => sum + fs.statSync(`${dist}/${name}`).size,
    0,
  );
  agent = await TestAgent.start({
    env: { AGENT_PREPARE: '1' },
    beforeBoot: async (pid, address) => {
      await eventually(() => fs.readFileSync(`/proc/${pid}/syscall`, 'latin1').startsWith(`${readSystemCall} 0x0 `));
      const bytesRead = Number(/^rchar: (\d+)/.exec(fs.readFileSync(`/proc/${pid}/io`, 'latin1'))![1]);
      expect(bytesRead).toBeGreaterThan(bundleBytes);
      await expect(fetch(`${address}/health`)).rejects.toThrow('fetch failed');
    },
  });
  expect((await fetch(`${agent.address}/platform/state`)).status).toBe(404);
  expect((await state()).sandboxId).toBe('sbx-test');
  expect(await agent.post('Filesystem/Stat', { path: '/' })).toMatchObject({ status: 200 });
  expect(await agent.post('Filesystem/Stat', { path: '/' }, { 'x-access-token': null })).toMatchObject({ status: 401 });
});

test('an agent that was started before its sandbox gets the sandbox with a token, and variables under its own', async () => {
  const own = 'platform-token-of-the-sandbox';
  agent = await TestAgent.start({ boot: { platformToken, env: { LD_OF_IMAGE: 'image', BOTH: 'image' } } });
  const init = { ...sandbox({ sandboxId: 'sbx-late', env: { BOTH: 'sandbox' } }), platformToken: own };
  expect((await platform('init', { ...init, platformToken: 7 })).status).toBe(400);
  expect((await platform('init', init)).status).toBe(204);
  // The earlier token opens nothing any more.
  expect((await platform('state')).status).toBe(404);
  expect((await platform('init', init)).status).toBe(404);
  const probe = await fetch(`${agent.address}/platform/probe`, {
    method: 'POST',
    headers: { 'x-platform-token': own },
    body: JSON.stringify({ command: ['/bin/sh', '-c', '[ $LD_OF_IMAGE-$BOTH = image-sandbox ]'] }),
  });
  expect(await probe.json()).toEqual({ exitCode: 0 });
});

test('the name of a sandbox is written where its first process was started with another', () => {
  const etc = fs.mkdtempSync(path.join(os.tmpdir(), 'etc-'));
  try {
    const hosts = `127.0.0.1\tlocalhost\n10.1.2.3\t${os.hostname()} ${os.hostname()}x\n`;
    fs.writeFileSync(`${etc}/hosts`, hosts);
    fs.writeFileSync(`${etc}/hostname`, 'earlier\n');
    writeHostname('sbx-late', etc);
    expect(fs.readFileSync(`${etc}/hostname`, 'utf8')).toBe('sbx-late\n');
    expect(fs.readFileSync(`${etc}/hosts`, 'utf8')).toBe(
      `127.0.0.1\tlocalhost\n10.1.2.3\tsbx-late ${os.hostname()}x\n`,
    );
  } finally {
    fs.rmSync(etc, { recursive: true });
  }
});
