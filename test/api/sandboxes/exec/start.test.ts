import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { ExecTokens } from '../../../../api/routes/sandboxes/exec/tokens.ts';
import { startSession } from '../../../../db/accounts/sign-ins.ts';
import { User } from '../../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../../../domain/ids.ts';
import { sandbox as bootOf, platformToken, TestAgent } from '../../../agent/support/agent.ts';
import { HostileServer } from '../../../platform/agent-client/hostile-server.ts';
import { until } from '../../../support/until.ts';
import type { Json, Reply } from '../../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../../test-api.ts';

// Two replicas of the API on one database, and real agents in separate processes.
let one: TestApi;
let two: TestApi;
let agent: TestAgent;
let member: Caller;
let id: SandboxId;
let url: string;
let urlOfOne: string;

beforeAll(async () => {
  agent = await TestAgent.start({
    boot: { platformToken, init: bootOf({ env: { FROM: 'sandbox', OVER: 'sandbox' } }) },
  });
  one = await startApi({ planName: 'pro', platformToken: () => platformToken });
  const account = { ...one.root, apiKey: one.root.key };
  two = await startApi({ on: { orm: one.orm, account, commands: one.commands }, platformToken: () => platformToken });
  member = await one.addUser(one.root);
  id = await addSandbox(member, agent.port);
  url = await two.app.listen({ host: '127.0.0.1', port: 0 });
  urlOfOne = await one.app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await agent?.stop();
});
afterEach(async () => {
  await one.send(member, 'DELETE', `/v1/sandboxes/${id}/exec`);
});

async function addSandbox(owner: Caller, agentPort: number, timeout = 3600): Promise<SandboxId> {
  const { body } = await one.send(owner, 'POST', '/v1/sandboxes', { timeout });
  const { sandbox_id: sandboxId } = body.data;
  const place = { agentAddress: '127.0.0.1', agentPort };
  await one.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, place);
  return sandboxId;
}

const exec = (body: Json, caller: Caller | null = member, on = one) =>
  on.send(caller, 'POST', `/v1/sandboxes/${id}/exec`, body);
const openStream = (path: string, headers: Record<string, string> = {}, on = two) =>
  on.send(null, 'GET', path, undefined, { headers });

interface Event {
  id: string | undefined;
  type: string;
  data: Json;
}

function eventsIn(text: string): Event[] {
  const field = (frame: string, name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1];
  return text
    .split('\n\n')
    .filter(Boolean)
    .map((frame) => ({
      id: field(frame, 'id'),
      type: field(frame, 'event')!,
      data: JSON.parse(field(frame, 'data')!),
    }));
}

const output = (reply: Pick<Reply, 'text'>, channel = 'stdout') =>
  Buffer.concat(
    eventsIn(reply.text)
      .filter(({ type }) => type === channel)
      .map(({ data }) => Buffer.from(data.data_b64, 'base64')),
  ).toString();

/** Runs a command to its end. */
async function run(body: Json): Promise<Reply> {
  const started = await exec(body);
  expect(started.status).toBe(201);
  return openStream(started.body.stream_path);
}

const refuses = (reply: Reply, status: number, code: string) =>
  expect([reply.status, reply.body?.code]).toEqual([status, code]);

test('a command started on one replica is followed on the other, by its token and by the key', async () => {
  const started = await exec({
    command: 'echo $FROM $OVER $OWN; pwd; echo bad >&2; exit 3',
    env: { OVER: 'own', OWN: 'x' },
  });
  expect(started.status).toBe(201);
  expect(Object.keys(started.body).sort()).toEqual(['deadline', 'started_at', 'stream_path']);
  expect(started.body.stream_path).toMatch(new RegExp(`^/v1/sandboxes/${id}/exec/stream\\?token=[\\w.-]+$`));
  expect(started.body.started_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  const received = await openStream(started.body.stream_path);
  expect(received.headers).toMatchObject({ 'access-control-allow-origin': '*', 'cache-control': 'no-store' });
  const events = eventsIn(received.text);
  expect(events.slice(0, 2)).toEqual([
    { id: undefined, type: 'ready', data: {} },
    { id: expect.stringMatching(/^\w+-1$/), type: 'start', data: { pid: expect.any(Number) } },
  ]);
  expect([output(received), output(received, 'stderr')]).toEqual(['sandbox own x\n/\n', 'bad\n']);
  expect(events.at(-1)).toMatchObject({ type: 'end', data: { exit_code: 3 } });
  const byKey = await two.send(member, 'GET', `/v1/sandboxes/${id}/exec/stream`);
  expect(byKey.text).toBe(received.text);
});

describe('with wait, the reply has the whole result', () => {
  test('of a command that ends, with its input', async () => {
    const reply = await exec({
      command: 'cat; echo $OWN >&2; exit 3',
      stdin: 'größe\n',
      env: { OWN: 'x' },
      wait: true,
    });
    expect(reply.status).toBe(200);
    expect(reply.body).toEqual({
      exit_code: 3,
      stdout: 'größe\n',
      stderr: 'x\n',
      truncated: false,
      duration_ms: expect.any(Number),
    });
    expect((await one.send(member, 'GET', `/v1/sandboxes/${id}/exec/active`)).body).toEqual({ active: false });
  });

  test('a streamed command gets input, too, and need not read it', async () => {
    expect(output(await run({ command: 'wc -c', stdin: 'x'.repeat(128 * 1024) }))).toBe('131072\n');
    expect((await exec({ command: 'exit 0', stdin: 'x'.repeat(128 * 1024), wait: true })).body.exit_code).toBe(0);
  });

  test('has the end of long output and reports the missing beginning; invalid text is replaced', async () => {
    const command = 'head -c 3000000 /dev/zero | tr "\\0" a; printf end';
    const { body } = await exec({ command, wait: true });
    expect(body.truncated).toBe(true);
    expect(body.stdout.endsWith('aend')).toBe(true);
    expect(body.stdout.length).toBeLessThanOrEqual(1024 * 1024);
    const binary = await exec({ command: "printf 'a\\000b\\377'", wait: true });
    expect(binary.body).toMatchObject({ stdout: 'a\0b\ufffd', truncated: false });
  });

  test('the same Idempotency-Key gives the same result, without running it again', async () => {
    const more = { headers: { 'idempotency-key': 'wait-once' } };
    const send = () =>
      one.send(member, 'POST', `/v1/sandboxes/${id}/exec`, { command: 'date +%N; printf "\\000"', wait: true }, more);
    const first = await send();
    expect(first.status).toBe(200);
    expect((await send()).body).toEqual(first.body);
  });

  test('a command that is cancelled, or reaches its deadline, is refused with the reason', async () => {
    const waiting = exec({ command: 'sleep 60', wait: true });
    await until(async () => (await two.send(member, 'DELETE', `/v1/sandboxes/${id}/exec`)).status === 200);
    refuses(await waiting, 409, 'exec_cancelled');
    const short = await addSandbox(member, agent.port, 60);
    const from = { timeoutFrom: new Date(Date.now() - 59_000) };
    await one.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: short }, from);
    const late = await one.send(member, 'POST', `/v1/sandboxes/${short}/exec`, { command: 'sleep 60', wait: true });
    refuses(late, 409, 'exec_deadline_exceeded');
  });

  test('a second command meanwhile is refused, and a command that cannot start is an error', async () => {
    const waiting = exec({ command: 'sleep 60', wait: true });
    await until(async () => (await two.send(member, 'GET', `/v1/sandboxes/${id}/exec/active`)).body.active === true);
    refuses(await exec({ command: 'true', wait: true }), 409, 'exec_in_progress');
    await one.send(member, 'DELETE', `/v1/sandboxes/${id}/exec`);
    await waiting;
    refuses(await exec({ command: 'true', cwd: '/nowhere', wait: true }), 400, 'invalid_cwd');
  });
});

test('the command runs in cwd', async () => {
  expect(output(await run({ command: 'pwd', cwd: '/usr/lib' }))).toBe('/usr/lib\n');
});

test('a command is shown to the user who started it, until it has ended', async () => {
  const active = (caller: Caller, on = two) => on.send(caller, 'GET', `/v1/sandboxes/${id}/exec/active`);
  expect((await active(member)).body).toEqual({ active: false });
  const { body: started } = await exec({ command: 'sleep 60', cwd: '/tmp' });
  expect((await active(member)).body).toEqual({
    active: true,
    command: 'sleep 60',
    cwd: '/tmp',
    ...started,
  });
  // The account's root sees the sandbox, but not another user's commands in it.
  expect((await active(one.root)).body).toEqual({ active: false });
  refuses(await one.send(one.root, 'GET', `/v1/sandboxes/${id}/exec/stream`), 404, 'exec_not_found');
  refuses(await exec({ command: 'true' }, one.root), 409, 'exec_in_progress');
  expect((await one.send(one.root, 'DELETE', `/v1/sandboxes/${id}/exec`)).body).toEqual({ cancelled: true });
  expect((await active(member)).body).toEqual({ active: false });
});

test('exactly one of many concurrent commands is started, over both replicas', async () => {
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, index) => exec({ command: 'sleep 60' }, member, index % 2 ? one : two)),
  );
  expect(replies.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
  refuses(replies.find(({ status }) => status === 409)!, 409, 'exec_in_progress');
});

test('cancel on either replica ends a command of the other, and the stream reports it', async () => {
  const { body } = await exec({ command: 'echo up; sleep 600' });
  const received = openStream(body.stream_path);
  await until(async () => (await two.send(member, 'GET', `/v1/sandboxes/${id}/exec/active`)).body.active);
  expect((await two.send(member, 'DELETE', `/v1/sandboxes/${id}/exec`)).body).toEqual({ cancelled: true });
  expect(eventsIn((await received).text).at(-1)).toMatchObject({
    type: 'error',
    data: { code: 'cancelled', message: 'The command was cancelled' },
  });
  refuses(await one.send(member, 'DELETE', `/v1/sandboxes/${id}/exec`), 404, 'exec_not_found');
});

test('Last-Event-ID continues after that event on another replica; after the last event the stream is over', async () => {
  const { body } = await exec({ command: 'echo a; echo b >&2; sleep 0.1; echo c' });
  const all = eventsIn((await openStream(body.stream_path, {}, one)).text);
  const second = all[2]!;
  const rest = await openStream(body.stream_path, { 'last-event-id': second.id! });
  expect(eventsIn(rest.text)).toEqual([all[0], ...all.slice(3)]);
  const byKey = await two.send(member, 'GET', `/v1/sandboxes/${id}/exec/stream`, undefined, {
    headers: { 'last-event-id': second.id! },
  });
  expect(byKey.text).toBe(rest.text);
  const { status, text } = await openStream(body.stream_path, { 'last-event-id': all.at(-1)!.id! });
  expect([status, text]).toEqual([204, '']);
  expect(eventsIn((await openStream(body.stream_path, { 'last-event-id': 'nonsense' })).text)).toEqual(all);
  refuses(await openStream(body.stream_path, { 'last-event-id': 'otherrun-3' }), 404, 'exec_not_found');
});

test('the deadline is the setting’s, and never after the sandbox’s own timeout, even when that changes', async () => {
  const ms = (time: string) => Date.parse(time);
  const limited = await startApi({
    on: { orm: one.orm, account: { ...one.root, apiKey: one.root.key }, commands: one.commands },
    platformToken: () => platformToken,
    env: { PLATFORM_EXEC_DEADLINE_SECONDS: '1' },
  });
  const short = await exec({ command: 'sleep 60' }, member, limited);
  expect(ms(short.body.deadline) - ms(short.body.started_at)).toBe(1000);
  expect(eventsIn((await openStream(short.body.stream_path)).text).at(-1)).toMatchObject({
    type: 'error',
    data: { code: 'deadline_exceeded', message: expect.any(String) },
  });
  await limited.stop();

  const soon = await addSandbox(member, agent.port, 600);
  const { body } = await one.send(member, 'POST', `/v1/sandboxes/${soon}/exec`, { command: 'sleep 60' });
  const { timeout_at: timeoutAt } = (await one.send(member, 'GET', `/v1/sandboxes/${soon}`)).body.data;
  expect(ms(body.deadline)).toBe(ms(timeoutAt));
  await one.send(member, 'POST', `/v1/sandboxes/${soon}/timeout`, { timeout: 1800 });
  expect((await one.send(member, 'GET', `/v1/sandboxes/${soon}/exec/active`)).body.deadline).toBe(body.deadline);
});

test('a repeated request with an Idempotency-Key runs nothing twice, and its reply has no token', async () => {
  const counted = agent.path('counted');
  const ask = () =>
    two.send(
      member,
      'POST',
      `/v1/sandboxes/${id}/exec`,
      { command: `echo once >> ${counted}; echo once` },
      { headers: { 'idempotency-key': 'exec-once' } },
    );
  const first = await ask();
  const again = await ask();
  expect([first.status, again.status]).toEqual([201, 201]);
  expect(again.body).toEqual({ ...first.body, stream_path: `/v1/sandboxes/${id}/exec/stream` });
  expect(output(await two.send(member, 'GET', again.body.stream_path))).toBe('once\n');
  expect(fs.readFileSync(counted, 'utf8')).toBe('once\n');
});

test('running a command is an access', async () => {
  const row = () => one.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: id });
  await one.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: id }, { lastAccessedAt: null });
  await run({ command: 'true' });
  expect(Math.abs(Date.now() - (await row()).lastAccessedAt!.getTime())).toBeLessThan(120_000);
});

test('a token is valid only for its own execution in its own sandbox, and for a limited time', async () => {
  const { body } = await exec({ command: 'true' });
  const [path, token] = body.stream_path.split('?token=');
  for (const wrong of [
    '',
    'x',
    `${token}x`,
    token.replace(/^./, '_'),
    `${token}.more`,
    token.split('.').slice(0, 2).join('.'),
  ]) {
    refuses(await openStream(`${path}?token=${wrong}`), 401, 'unauthenticated');
  }
  const other = await addSandbox(member, agent.port);
  refuses(await openStream(`/v1/sandboxes/${other}/exec/stream?token=${token}`), 401, 'unauthenticated');
  const expired = new ExecTokens(() => [Buffer.alloc(32, 9)]).make(
    id,
    { executionId: token.split('.')[0]!, credentialId: member.keyId },
    new Date(Date.now() - 1000),
  );
  refuses(await openStream(`${path}?token=${expired}`), 401, 'unauthenticated');
  refuses(await one.send(null, 'GET', `/v1/sandboxes/${id}?token=${token}`), 401, 'unauthenticated');
  refuses(await one.send(null, 'DELETE', `/v1/sandboxes/${id}/exec?token=${token}`), 401, 'unauthenticated');
  expect((await openStream(body.stream_path)).status).toBe(200);
  await run({ command: 'true' });
  refuses(await openStream(body.stream_path), 404, 'exec_not_found');
  const logged = one.log.concat(two.log).join('\n');
  expect(logged).toContain('/exec/stream');
  expect(logged).not.toContain(token);
});

test('requests without a key, or for a sandbox of another account, are refused', async () => {
  const stranger = await one.addAccount();
  for (const [method, path, body] of [
    ['POST', '/exec', { command: 'true' }],
    ['GET', '/exec/stream', undefined],
    ['GET', '/exec/active', undefined],
    ['DELETE', '/exec', undefined],
  ] as const) {
    refuses(await one.send(stranger, method, `/v1/sandboxes/${id}${path}`, body), 404, 'not_found');
    refuses(await one.send(null, method, `/v1/sandboxes/${id}${path}`, body), 401, 'unauthenticated');
  }
});

test('in a sandbox that is not running there is no exec', async () => {
  const paused = await addSandbox(member, agent.port);
  const { body } = await one.send(member, 'POST', `/v1/sandboxes/${paused}/exec`, { command: 'true' });
  await one.send(member, 'POST', `/v1/sandboxes/${paused}/pause`, {});
  for (const [method, path, asked] of [
    ['POST', '/exec', { command: 'true' }],
    ['GET', '/exec/stream', undefined],
    ['GET', '/exec/active', undefined],
    ['DELETE', '/exec', undefined],
  ] as const) {
    const reply = await one.send(member, method, `/v1/sandboxes/${paused}${path}`, asked);
    refuses(reply, 409, 'sandbox_not_running');
    expect(reply.body.error).toBe('The sandbox is paused, not running');
  }
  refuses(await openStream(body.stream_path), 409, 'sandbox_not_running');
  await one.send(member, 'DELETE', `/v1/sandboxes/${paused}`);
  refuses(await openStream(body.stream_path), 404, 'not_found');
});

test.each([
  ['no command', {}, 'validation_failed', 'command'],
  ['an empty one', { command: '' }, 'validation_failed', 'command'],
  ['one too long', { command: 'x'.repeat(200_000) }, 'validation_failed', 'command'],
  ['a wrong variable', { command: 'true', env: { 'A=B': 'x' } }, 'validation_failed', 'env.A=B'],
  ['a number for cwd', { command: 'true', cwd: 7 }, 'validation_failed', 'cwd'],
])('%s is refused with the name of the field', async (_what, body, code, field) => {
  const reply = await exec(body);
  refuses(reply, 400, code);
  expect(reply.body.details.map(({ path }: Json) => path)).toEqual([field]);
});

test('a command that the sandbox cannot run is refused with the reason', async () => {
  const wrongCwd = await exec({ command: 'true', cwd: '/nowhere' });
  refuses(wrongCwd, 400, 'invalid_cwd');
  expect(wrongCwd.body.error).toContain('no such file or directory');
  const shells = agent.path('shells');
  fs.mkdirSync(shells);
  for (const name of ['bash', 'sh']) fs.writeFileSync(`${shells}/${name}`, '#!/no/interpreter\n', { mode: 0o755 });
  const noBash = await exec({ command: 'true', env: { PATH: shells } });
  refuses(noBash, 409, 'exec_not_possible');
  expect(noBash.body.error).toContain('no bash and no sh');
  refuses(await exec({ command: `: ${'ä'.repeat(100_000)}` }), 400, 'validation_failed');
  for (const cwd of [`/nowhere/${'x/'.repeat(2040)}`, `/${'x'.repeat(4095)}`, `/${'ä'.repeat(4095)}`]) {
    const longCwd = await exec({ command: 'true', cwd });
    refuses(longCwd, 400, 'invalid_cwd');
    expect(longCwd.body.error).toContain(cwd.slice(0, 200));
  }
});

test('nulls and unknown fields are accepted', async () => {
  expect((await run({ command: 'true', cwd: null, env: null, other: 1 })).status).toBe(200);
});

/** Opens a live stream over the network and waits for its beginning. */
async function follow(
  path: string,
  replica = url,
  headers: http.OutgoingHttpHeaders = {},
): Promise<http.IncomingMessage> {
  const [reply] = (await once(http.get(`${replica}${path}`, { headers }), 'response')) as [http.IncomingMessage];
  reply.on('error', () => {});
  return reply;
}

test('a reader that stops reading, or disconnects, delays neither the command nor other readers', async () => {
  const goOn = agent.path('all-follow');
  const { body } = await exec({
    command: `until [ -e ${goOn} ]; do sleep 0.05; done; head -c 33554432 /dev/zero; echo done`,
  });
  const stalled = await follow(body.stream_path);
  stalled.pause();
  const leaving = await follow(body.stream_path);
  leaving.once('data', () => leaving.destroy());
  const reading = await follow(body.stream_path, urlOfOne);
  fs.writeFileSync(goOn, '');
  const received = { text: await textOf(reading) };
  stalled.destroy();
  // Best effort: a reader that is too slow for a while loses the oldest part of the buffer.
  expect(output(received).length).toBeGreaterThan(16 * 1024 * 1024);
  expect(output(received).endsWith('done\n')).toBe(true);
  expect(eventsIn(received.text).at(-1)).toMatchObject({ type: 'end', data: { exit_code: 0 } });
});

test('open streams are limited for each caller and each sandbox, and a closed one frees its place', async () => {
  const third = await startApi({
    on: { orm: one.orm, account: { ...one.root, apiKey: one.root.key }, commands: one.commands },
    platformToken: () => platformToken,
    env: { PLATFORM_EXEC_STREAMS_PER_CALLER: '2', PLATFORM_EXEC_STREAMS_PER_SANDBOX: '3' },
  });
  const address = await third.app.listen({ host: '127.0.0.1', port: 0 });
  const { body } = await exec({ command: 'sleep 60' });
  const byKey = `/v1/sandboxes/${id}/exec/stream`;
  const open = async (path: string, headers = {}) => {
    const [reply] = (await once(http.get(`${address}${path}`, { headers }), 'response')) as [http.IncomingMessage];
    reply.on('error', () => {}).resume();
    return reply;
  };
  const streams: http.IncomingMessage[] = [];
  try {
    for (let n = 0; n < 2; n++) streams.push(await open(body.stream_path));
    refuses(await third.send(null, 'GET', body.stream_path), 429, 'too_many_requests');
    streams.push(await open(byKey, { 'x-api-key': member.key }));
    expect(streams.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200]);
    refuses(await third.send(member, 'GET', byKey), 409, 'exec_stream_limit_reached');
    streams[0]!.destroy();
    await until(async () => {
      const again = await open(body.stream_path);
      streams.push(again);
      return again.statusCode === 200;
    });
  } finally {
    for (const stream of streams) stream.destroy();
    await third.stop();
  }
});

test('a reader that reads nothing within its time is disconnected, and the command continues', async () => {
  const third = await startApi({
    on: { orm: one.orm, account: { ...one.root, apiKey: one.root.key }, commands: one.commands },
    platformToken: () => platformToken,
    stalledReaderMs: 300,
  });
  const address = await third.app.listen({ host: '127.0.0.1', port: 0 });
  const connections = () => promisify(third.app.server.getConnections.bind(third.app.server))();
  const goOn = agent.path('go-on');
  const { body } = await exec({
    command: `head -c 33554432 /dev/zero; until [ -e ${goOn} ]; do sleep 0.05; done; echo done`,
  });
  const stalled = await follow(body.stream_path, address);
  let received = '';
  try {
    stalled.pause();
    await until(async () => (await connections()) === 0);
    // Data in transit can still be read, but it does not include the end.
    const closed = new Promise((resolve) => (stalled.closed ? resolve(null) : stalled.once('close', resolve)));
    stalled.on('data', (chunk) => {
      received += chunk;
    });
    stalled.resume();
    await closed;
  } finally {
    stalled.destroy();
    await third.stop();
  }
  expect(received).not.toMatch(/^event: (end|error)$/m);
  expect((await one.send(member, 'GET', `/v1/sandboxes/${id}/exec/active`)).body.active).toBe(true);
  fs.writeFileSync(goOn, '');
  const all = await openStream(body.stream_path, {}, one);
  expect(output(all).endsWith('done\n')).toBe(true);
  expect(eventsIn(all.text).at(-1)).toMatchObject({ type: 'end', data: { exit_code: 0 } });
});

test('readers get the end of the sandbox, or the loss of its agent, as an event', async () => {
  const doomed = await TestAgent.start();
  const cases = [
    ['terminated', 'sandbox_ended', 'The sandbox is terminated'],
    ['running', 'exec_interrupted', 'The connection to the sandbox broke; the command may still run'],
  ] as const;
  const sandboxes = [await addSandbox(member, doomed.port), await addSandbox(member, doomed.port)];
  const { body } = await one.send(member, 'POST', `/v1/sandboxes/${sandboxes[0]}/exec`, { command: 'sleep 60' });
  const token = body.stream_path.split('token=')[1].split('.');
  const paths = sandboxes.map((sandboxId) => {
    const own = new ExecTokens(() => [Buffer.alloc(32, 9)]).make(
      sandboxId,
      { executionId: token[0]!, credentialId: member.keyId },
      new Date(Date.now() + 60_000),
    );
    return `/v1/sandboxes/${sandboxId}/exec/stream?token=${own}`;
  });
  const streams = await Promise.all(paths.map((path) => follow(path)));
  const texts = streams.map(async (stream) => {
    let text = '';
    for await (const chunk of stream) text += chunk;
    return text;
  });
  await one.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: sandboxes[0] }, { status: 'terminated' });
  await doomed.stop();
  for (const [index, text] of (await Promise.all(texts)).entries()) {
    const [, code, message] = cases[index]!;
    expect(eventsIn(text).at(-1)).toEqual({ id: undefined, type: 'error', data: { code, message } });
  }
  refuses(
    await one.send(member, 'POST', `/v1/sandboxes/${sandboxes[1]}/exec`, { command: 'true' }),
    503,
    'temporarily_unavailable',
  );
});

/** An access token of a new session. */
async function createToken({ userId }: Caller): Promise<string> {
  const attempt = { email: 'any@example.com', address: '192.0.2.1' };
  const session = await startSession(one.orm.em, { userId, passwordHash: null }, attempt);
  return one.dependencies.accessTokens.make(session!, userId);
}

test('an access token in the address gives access to streams of its user only, on every replica', async () => {
  await exec({ command: 'echo by token' });
  const path = `/v1/sandboxes/${id}/exec/stream`;
  const token = await createToken(member);
  for (const on of [one, two]) expect(output(await openStream(`${path}?token=${token}`, {}, on))).toBe('by token\n');
  refuses(await openStream(`${path}?token=${await createToken(one.root)}`), 404, 'exec_not_found');
  refuses(await openStream(`${path}?token=${await createToken(await one.addAccount())}`), 404, 'not_found');
  await one.orm.em.fork().execute('delete from sessions where user_id = ?', [member.userId]);
  refuses(await openStream(`${path}?token=${token}`), 401, 'unauthenticated');
  expect(one.log.concat(two.log).join('\n')).not.toContain(token);
});

type Revoke = (user: Caller, accessToken: string) => Promise<unknown>;

test.each<[string, 'key' | 'token', Revoke]>([
  [
    'its user is disabled',
    'key',
    ({ userId }) => one.orm.em.fork().nativeUpdate(User, { userId }, { status: 'disabled' }),
  ],
  [
    'its key is disabled',
    'key',
    (user) => one.send(user, 'PUT', `/v1/api-keys/${user.keyId}/status`, { is_active: false }),
  ],
  ['its key is deleted', 'key', (user) => one.send(user, 'DELETE', `/v1/api-keys/${user.keyId}`)],
  [
    'its session signs out',
    'token',
    (_user, token) => one.client.send('POST', '/v1/auth/sign-out', { headers: { authorization: `Bearer ${token}` } }),
  ],
  [
    'the password changes',
    'token',
    ({ userId }) => one.orm.em.fork().execute("update users set password_hash = 'other' where user_id = ?", [userId]),
  ],
])('when %s, streams opened with it end on every replica, and their tokens open nothing', async (_when, by, revoke) => {
  const user = await one.addUser(one.root);
  const sandboxId = await addSandbox(user, agent.port);
  const path = `/v1/sandboxes/${sandboxId}/exec`;
  const accessToken = await createToken(user);
  const headers: Record<string, string> =
    by === 'key' ? { 'x-api-key': user.key } : { authorization: `Bearer ${accessToken}` };
  const { body } = await one.client.send('POST', path, { headers, body: { command: 'sleep 60' } });
  const waiting = await follow(`${path}/stream`, urlOfOne, headers);
  // Streams with another key of the same user, or without one: only those of the revoked one end.
  const others = await one.addUser(one.root);
  const token = new ExecTokens(() => [Buffer.alloc(32, 9)]).make(
    sandboxId,
    { executionId: body.stream_path.split('token=')[1].split('.')[0], credentialId: others.keyId },
    new Date(Date.now() + 60_000),
  );
  const unaffected = await follow(`${path}/stream?token=${token}`);
  const followed = await follow(body.stream_path);
  const all = Promise.all([textOf(waiting), textOf(followed)]);
  await revoke(user, accessToken);
  for (const received of await all) {
    const data = { code: 'credential_revoked', message: expect.any(String) };
    expect(eventsIn(received).at(-1)).toEqual({ id: undefined, type: 'error', data });
  }
  refuses(await openStream(body.stream_path), 401, 'unauthenticated');
  expect(unaffected.destroyed || unaffected.readableEnded).toBe(false);
  unaffected.destroy();
  // The command continues, as the sandbox does. The account root ends it.
  expect((await one.send(one.root, 'DELETE', path)).status).toBe(200);
});

test('a manipulated agent has no effect: invalid events, and data after the end, are not forwarded', async () => {
  const frames = [
    'event: ready\ndata: {}\n\nevent: start\ndata: {"pid":1}\n\nevent: evil\ndata: x\n\n',
    'event: ready\ndata: {}\n\nevent: end\ndata: {"exit_code":0}\n\nevent: stdout\ndata: {"data_b64":"bGF0ZQ=="}\n\n',
    `event: stdout\ndata: ${'x'.repeat(1024 * 1024)}`,
  ];
  let received = '';
  const forged = http.createServer((request, reply) => {
    if (request.url!.startsWith('/platform/exec/events')) reply.writeHead(200).end(received);
    else reply.writeHead(200).end('{"run":"nonsense"}');
  });
  forged.listen(0, '127.0.0.1');
  await once(forged, 'listening');
  const sandboxId = await addSandbox(member, (forged.address() as AddressInfo).port);
  refuses(await one.send(member, 'GET', `/v1/sandboxes/${sandboxId}/exec/active`), 503, 'temporarily_unavailable');
  const token = new ExecTokens(() => [Buffer.alloc(32, 9)]).make(
    sandboxId,
    { executionId: 'run', credentialId: member.keyId },
    new Date(Date.now() + 60_000),
  );
  const seen: string[][] = [];
  for (received of frames) {
    const reply = await openStream(`/v1/sandboxes/${sandboxId}/exec/stream?token=${token}`);
    seen.push(eventsIn(reply.text).map(({ type, data }) => data.code ?? type));
  }
  expect(seen).toEqual([['ready', 'start', 'exec_interrupted'], ['ready', 'end'], ['exec_interrupted']]);
  forged.close();
});

test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf', 'nonsense', '', 'x'.repeat(1000)])(
  'an agent that refuses with the code %j: the caller gets 503',
  async (code) => {
    const body = `{"code":${JSON.stringify(code)},"message":"forged"}`;
    const forged = http.createServer((_, reply) => reply.writeHead(409).end(body)).listen(0, '127.0.0.1');
    await once(forged, 'listening');
    const sandboxId = await addSandbox(member, (forged.address() as AddressInfo).port);
    const path = `/v1/sandboxes/${sandboxId}/exec`;
    const token = new ExecTokens(() => [Buffer.alloc(32, 9)]).make(
      sandboxId,
      { executionId: 'run', credentialId: member.keyId },
      new Date(Date.now() + 60_000),
    );
    for (const reply of [
      await one.send(member, 'POST', path, { command: 'true' }),
      await one.send(member, 'GET', `${path}/active`),
      await one.send(member, 'DELETE', path),
      await one.send(null, 'GET', `${path}/stream?token=${token}`),
    ]) {
      refuses(reply, 503, 'temporarily_unavailable');
    }
    forged.close();
  },
);

test.each([
  ['an upgrade', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
  ['1xx replies without end', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)],
])('an agent that answers with %s blocks no request', async (_what, answer) => {
  const forged = await HostileServer.start((socket, server) => server.repeat(socket, answer));
  const sandboxId = await addSandbox(member, forged.port);
  const path = `/v1/sandboxes/${sandboxId}/exec`;
  refuses(await one.send(member, 'POST', path, { command: 'true' }), 503, 'temporarily_unavailable');
  refuses(await one.send(member, 'GET', `${path}/active`), 503, 'temporarily_unavailable');
  refuses(await one.send(member, 'GET', `${path}/stream`), 503, 'temporarily_unavailable');
  refuses(await one.send(member, 'DELETE', path), 503, 'temporarily_unavailable');
  await until(() => forged.open === 0);
  await forged.stop();
});

test('a stopping replica closes streams without a last event, so that readers reconnect to another', async () => {
  const third = await startApi({
    on: { orm: one.orm, account: { ...one.root, apiKey: one.root.key }, commands: one.commands },
    platformToken: () => platformToken,
  });
  const address = await third.app.listen({ host: '127.0.0.1', port: 0 });
  const { body } = await exec({ command: 'echo up; sleep 60' });
  const stream = await follow(body.stream_path, address);
  let received = '';
  stream.on('data', (chunk) => {
    received += chunk;
  });
  const ended = new Promise((resolve) => stream.once('close', resolve));
  await until(() => received.includes('stdout'));
  await third.stop();
  await ended;
  const types = eventsIn(received).map(({ type }) => type);
  expect(types).toEqual(['ready', 'start', 'stdout']);
});
