import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { readIfThere } from '../support/read-if-there.ts';
import { eventually, type Json, platformToken, sandbox, TestAgent, token } from './support/agent.ts';
import { deepFolder } from './support/deep-folder.ts';

let agent: TestAgent;
let runs = 0;

beforeAll(async () => {
  agent = await TestAgent.start({
    boot: { platformToken, init: sandbox({ env: { FROM: 'sandbox', OVER: 'sandbox' } }) },
  });
});
afterAll(() => agent.stop());

const ask = async (method: string, path = '', body?: object): Promise<{ status: number; json: Json }> => {
  const reply = await fetch(`${agent.address}/platform/exec${path}`, {
    method,
    headers: { 'x-platform-token': platformToken },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: reply.status, json: reply.status === 204 ? null : await reply.json() };
};

/** An execution of a failed test must not fail the next tests. */
afterEach(async () => {
  await ask('DELETE');
});

const request = (command: string, more: object = {}) => ({
  runId: `run${++runs}`,
  command,
  cwd: '/',
  env: {},
  owner: 'usr-1',
  startedAt: '2026-01-01T00:00:00.000000000Z',
  deadline: '2026-01-01T01:00:00.000000000Z',
  timeoutMs: 60_000,
  ...more,
});

async function start(command: string, more: object = {}): Promise<string> {
  const wanted = request(command, more);
  expect(await ask('POST', '', wanted)).toEqual({ status: 201, json: { runId: wanted.runId } });
  return wanted.runId;
}

interface Event {
  id: string | undefined;
  type: string;
  data: Json;
}

const parseEvent = (frame: string): Event => {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1];
  return { id: field('id'), type: field('event')!, data: JSON.parse(field('data')!) };
};

/** The events up to the end of the execution, or of the connection. */
async function events(run: string, { after = 0, onOpen = () => {} } = {}): Promise<Event[]> {
  const reply = await fetch(`${agent.address}/platform/exec/events?run=${run}&after=${after}`, {
    headers: { 'x-platform-token': platformToken },
  });
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  onOpen();
  return (await reply.text()).split('\n\n').filter(Boolean).map(parseEvent);
}

const text = (list: Event[], channel: string) =>
  Buffer.concat(
    list.filter(({ type }) => type === channel).map(({ data }) => Buffer.from(data.data_b64, 'base64')),
  ).toString();

const isAlive = (pid: number) => {
  const stat = readIfThere(`/proc/${pid}/stat`);
  return stat !== '' && !/\) Z/.test(stat);
};

/** A reader that reads the head of its stream and then stops. */
async function stalledReader(run: string): Promise<http.ClientRequest> {
  const reading = http.get(`${agent.address}/platform/exec/events?run=${run}`, {
    headers: { 'x-platform-token': platformToken },
  });
  const [reply] = (await once(reading, 'response')) as [http.IncomingMessage];
  reply.pause();
  reply.on('error', () => {});
  return reading;
}

test('an execution reports its start, both outputs and its end, in order and numbered', async () => {
  const run = await start('echo out; echo err >&2; exit 3');
  const received = await events(run);
  expect(received[0]).toEqual({ id: undefined, type: 'ready', data: {} });
  expect(received[1]).toEqual({ id: `${run}-1`, type: 'start', data: { pid: expect.any(Number) } });
  expect(received.at(-1)).toEqual({ id: expect.any(String), type: 'end', data: { exit_code: 3 } });
  expect(received.slice(1).map(({ id }) => id)).toEqual(received.slice(1).map((_, index) => `${run}-${index + 1}`));
  expect([text(received, 'stdout'), text(received, 'stderr')]).toEqual(['out\n', 'err\n']);
});

test('a heredoc with quotes and an indented terminator is passed unchanged', async () => {
  const body = 'it\'s "$HOME" `x` \\n\n  EOF\n';
  const run = await start(`cat <<'EOF'\n${body}EOF\necho $?`);
  expect(text(await events(run), 'stdout')).toBe(`${body}0\n`);
});

test.each([
  'exit 0',
  'exec false',
  'kill -9 $$',
  'exec >&- 2>&-; exit 5',
  "trap '' TERM INT; set -e; false",
  'cat <<EOF\nnever ended',
])('after `%s` the next command runs as usual', async (command) => {
  await events(await start(command));
  const next = await events(await start('echo next'));
  expect([text(next, 'stdout'), next.at(-1)?.data]).toEqual(['next\n', { exit_code: 0 }]);
});

test('variables with line ends, quotes and no text arrive unchanged, and only in their own execution', async () => {
  const env = { LINES: 'one\ntwo "three" \u20ac\n', QUOTED: `it's`, EMPTY: '' };
  const run = await start('printf "%s|%s|%s" "$LINES" "$QUOTED" "${EMPTY-unset}"', { env });
  expect(text(await events(run), 'stdout')).toBe(`${env.LINES}|it's|`);
  expect(text(await events(await start('printf %s "${QUOTED-unset}"')), 'stdout')).toBe('unset');
});

test('it runs with its own variables over the sandbox’s, in its directory, and reads an empty input', async () => {
  const run = await start('echo $FROM $OVER $OWN; pwd; cat; echo read', {
    cwd: '/usr',
    env: { OVER: 'own', OWN: 'x' },
  });
  expect(text(await events(run), 'stdout')).toBe('sandbox own x\n/usr\nread\n');
});

test('a command that a signal ended has 128 and its number', async () => {
  expect((await events(await start('kill -TERM $$'))).at(-1)?.data).toEqual({ exit_code: 143 });
});

test('one at a time: a second execution is refused until the first has ended, also for concurrent requests', async () => {
  const replies = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '', request('sleep 30'))));
  expect(replies.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
  expect(replies.find(({ status }) => status === 409)!.json.code).toBe('in_progress');
  expect(await ask('DELETE')).toEqual({ status: 200, json: { cancelled: true } });
  expect((await events(await start('true'))).at(-1)?.type).toBe('end');
});

test('a client that has read the end can start the next execution at once', async () => {
  for (let i = 0; i < 30; i++) expect((await events(await start('true'))).at(-1)?.type).toBe('end');
});

test('a repeated request starts nothing, during the execution and after its end', async () => {
  const counted = agent.path('counted');
  const wanted = request(`echo once >> ${counted}; sleep 0.2`);
  const both = await Promise.all([ask('POST', '', wanted), ask('POST', '', wanted)]);
  expect(both.map(({ status }) => status)).toEqual([201, 201]);
  await events(wanted.runId);
  expect((await ask('POST', '', wanted)).status).toBe(201);
  await events(await start('true'));
  expect(fs.readFileSync(counted, 'utf8')).toBe('once\n');
});

test('an execution is shown with its request, and with its end', async () => {
  const wanted = request('sleep 30', { cwd: '/tmp' });
  await ask('POST', '', wanted);
  const { runId, owner, command, cwd, startedAt, deadline } = wanted;
  const received = { runId, owner, command, cwd, startedAt, deadline };
  expect(await ask('GET')).toEqual({ status: 200, json: { run: { ...received, running: true } } });
  await ask('DELETE');
  expect(await ask('GET')).toEqual({ status: 200, json: { run: { ...received, running: false } } });
  expect(await ask('DELETE')).toMatchObject({ status: 404, json: { code: 'no_run' } });
});

test('a reader continues where it stopped; after the last event there is nothing', async () => {
  const run = await start('for i in 1 2 3; do echo $i; sleep 0.05; done');
  const all = await events(run);
  const last = all.length - 1;
  const rest = await events(run, { after: 2 });
  expect(rest.slice(1)).toEqual(all.slice(3));
  expect((await ask('GET', `/events?run=${run}&after=${last}`)).status).toBe(204);
  expect((await ask('GET', `/events?run=other&after=0`)).json.code).toBe('no_run');
  expect((await ask('GET', `/events?run=${run}&after=-1`)).status).toBe(400);
});

test('without a reader the newest MiB of output is kept and the command is not delayed', async () => {
  const run = await start('for i in $(seq 1 300000); do echo line $i; done; echo last');
  await eventually(async () => !(await ask('GET')).json.run.running);
  const received = await events(run);
  const kept = received.filter(({ type }) => type === 'stdout');
  const output = text(received, 'stdout');
  expect(output.length).toBeGreaterThan(960 * 1024);
  expect(output.length).toBeLessThanOrEqual(1024 * 1024);
  expect(output.endsWith('line 300000\nlast\n')).toBe(true);
  expect([received[1]?.type, received.at(-1)?.type]).toEqual(['start', 'end']);
  expect(Number(kept[0]!.id!.split('-')[1])).toBeGreaterThan(2);
});

test('a reader who reads gets all of 64 MiB', async () => {
  const go = agent.path('go');
  const run = await start(`until [ -e ${go} ]; do sleep 0.01; done; head -c 67108864 /dev/zero`);
  const received = await events(run, { onOpen: () => fs.writeFileSync(go, '') });
  expect(text(received, 'stdout').length).toBe(64 * 1024 * 1024);
});

test('a reader that stops reading delays neither the command nor other readers, and uses no memory', async () => {
  const go = agent.path('go-beside-stalled');
  const run = await start(`until [ -e ${go} ]; do sleep 0.01; done; head -c 67108864 /dev/zero; echo done`);
  const stalled = await stalledReader(run);
  const before = agent.privateMib();
  const received = await events(run, { onOpen: () => fs.writeFileSync(go, '') });
  expect(text(received, 'stdout').length).toBeGreaterThan(32 * 1024 * 1024);
  expect(text(received, 'stdout').endsWith('done\n')).toBe(true);
  expect(agent.privateMib() - before).toBeLessThan(60);
  stalled.destroy();

  const goAlone = agent.path('go-alone');
  const alone = await start(`until [ -e ${goAlone} ]; do sleep 0.01; done; head -c 33554432 /dev/zero`);
  const other = await stalledReader(alone);
  fs.writeFileSync(goAlone, '');
  const startedMs = performance.now();
  await eventually(async () => !(await ask('GET')).json.run.running);
  // A reader delays a command for 5 s at most. Without this limit the command would wait until the connection ends.
  expect(performance.now() - startedMs).toBeLessThan(45_000);
  other.destroy();
}, 300_000);

test('cancel ends children, processes in other sessions, and orphans; the stream reports it', async () => {
  const pids = agent.path('pids');
  const run = await start(
    `echo $$ >> ${pids}; sleep 600 & echo $! >> ${pids}
     setsid sh -c 'echo $$ >> ${pids}; exec sleep 601' &
     (setsid setsid sh -c 'trap "" TERM HUP INT; echo $$ >> ${pids}; sleep 602' &)
     while sleep 0.01; do :; done`,
  );
  const received = events(run);
  await eventually(() => fs.existsSync(pids) && fs.readFileSync(pids, 'utf8').split('\n').length === 5);
  const all = fs.readFileSync(pids, 'utf8').trim().split('\n').map(Number);
  expect(all.every(isAlive)).toBe(true);
  expect((await ask('DELETE')).json).toEqual({ cancelled: true });
  expect(all.filter(isAlive)).toEqual([]);
  expect((await received).at(-1)).toMatchObject({
    type: 'error',
    data: { code: 'cancelled', message: expect.any(String) },
  });
});

test('at its deadline an execution is killed with all of its processes, and reports it', async () => {
  const pids = agent.path('deadline-pids');
  // On a busy machine the deadline may come before the shell has started.
  for (let timeoutMs = 2000; readIfThere(pids) === ''; timeoutMs *= 2) {
    const run = await start(`setsid sleep 600 & echo $! > ${pids}; wait`, { timeoutMs });
    expect((await events(run)).at(-1)).toMatchObject({ type: 'error', data: { code: 'deadline_exceeded' } });
  }
  expect(isAlive(Number(readIfThere(pids)))).toBe(false);
});

test('background processes continue after the end of the execution, without further events', async () => {
  const file = agent.path('background');
  const run = await start(`(sleep 0.5; echo late; echo written > ${file}) & echo now`);
  const received = await events(run);
  expect(text(received, 'stdout')).toBe('now\n');
  expect(received.at(-1)).toMatchObject({ type: 'end', data: { exit_code: 0 } });
  await eventually(() => fs.existsSync(file));
  expect((await events(run)).length).toBe(received.length);
});

test('Process/List does not list its processes', async () => {
  await start('sleep 30');
  expect((await agent.client(Process).list({})).processes).toEqual([]);
  await ask('DELETE');
});

test.each([
  ['a wrong cwd', { cwd: '/nowhere' }, 400, 'invalid_cwd', /no such file or directory/],
  ['a cwd that is a file', { cwd: '/etc/passwd' }, 400, 'invalid_cwd', /not a directory/],
  ['a cwd that is too long for the kernel', { cwd: '/x'.repeat(2500) }, 400, 'invalid_cwd', /file name too long/],
  ['a command longer than the kernel takes', { command: `: ${'x'.repeat(200_000)}` }, 400, 'too_long', /too long/],
  ['no command', { command: '' }, 400, 'invalid', /command/],
  ['a variable’s name with =', { env: { 'A=B': 'x' } }, 400, 'invalid', /env/],
  ['no time to run', { timeoutMs: 0 }, 400, 'invalid', /timeoutMs/],
])('%s is refused, and the next one starts', async (_what, wrong, status, code, message) => {
  expect(await ask('POST', '', request('true', wrong))).toEqual({
    status,
    json: { code, message: expect.stringMatching(message) },
  });
  expect((await events(await start('true'))).at(-1)?.type).toBe('end');
});

test('the shell is found in spite of a PATH that nothing expands, and the command gets that PATH', async () => {
  const run = await start('/bin/echo "$PATH"', { env: { PATH: '/opt/x:$PATH' } });
  expect(text(await events(run), 'stdout')).toBe('/opt/x:$PATH\n');
});

test('a directory of 4,090 characters is a working directory', async () => {
  const cwd = deepFolder(agent.path('deep'), 4090);
  expect(text(await events(await start('echo here', { cwd })), 'stdout')).toBe('here\n');
});

test('without the platform’s token the path does not exist', async () => {
  for (const headers of [{}, { 'x-access-token': token }, { 'x-platform-token': 'wrong' }]) {
    const reply = await fetch(`${agent.address}/platform/exec`, { headers: headers as Record<string, string> });
    expect(reply.status).toBe(404);
  }
  expect((await ask('GET', 'utable')).status).toBe(404);
  expect((await ask('PUT')).status).toBe(404);
});

test('before the sandbox has its name commands are refused', async () => {
  const nameless = await TestAgent.start({ boot: { platformToken } });
  const reply = await fetch(`${nameless.address}/platform/exec`, {
    method: 'POST',
    headers: { 'x-platform-token': platformToken },
    body: JSON.stringify(request('true')),
  });
  expect([reply.status, ((await reply.json()) as Json).code]).toEqual([409, 'not_ready']);
  await nameless.stop();
});

describe('the end of an execution', () => {
  const readEnd = (runId: string, waitMs = 0) => ask('GET', `/end?run=${runId}&waitMs=${waitMs}`);

  test('is returned immediately, and also later, after other executions', async () => {
    const go = agent.path('go-to-end');
    const runId = await start(`until [ -e ${go} ]; do sleep 0.01; done; sleep 0.2; exit 3`);
    expect(await readEnd(runId)).toEqual({ status: 200, json: { ended: false, runId } });
    fs.writeFileSync(go, '');
    const end = { ended: true, runId, exitCode: 3, error: null, durationMs: expect.any(Number) };
    const { status, json } = await readEnd(runId, 30_000);
    expect([status, json]).toEqual([200, end]);
    expect(json.durationMs).toBeGreaterThanOrEqual(200);
    const next = await start('true');
    expect((await readEnd(next, 30_000)).json.exitCode).toBe(0);
    expect((await readEnd(runId)).json).toEqual(json);
  });

  test('has a reason if there is no exit code', async () => {
    const cancelled = await start('sleep 600');
    const waiting = readEnd(cancelled, 30_000);
    await ask('DELETE');
    expect((await waiting).json).toMatchObject({ ended: true, exitCode: null, error: 'cancelled' });
    const late = await start('sleep 600', { timeoutMs: 100 });
    expect((await readEnd(late, 30_000)).json).toMatchObject({ exitCode: null, error: 'deadline_exceeded' });
  });

  test('is unknown for runs that never began, and the request is validated', async () => {
    expect(await readEnd('other')).toMatchObject({ status: 404, json: { code: 'no_run' } });
    expect(await readEnd('other', 30_001)).toMatchObject({ status: 400 });
    expect(await ask('GET', '/end')).toMatchObject({ status: 404 });
  });
});
