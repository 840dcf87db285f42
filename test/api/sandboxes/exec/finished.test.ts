import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { ExecutionEndWatch } from '../../../../api/routes/sandboxes/exec/execution-end-watch.ts';
import { Sandbox } from '../../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../../../domain/ids.ts';
import { sandbox as bootOf, platformToken, TestAgent } from '../../../agent/support/agent.ts';
import { HostileServer } from '../../../platform/agent-client/hostile-server.ts';
import { until } from '../../../support/until.ts';
import type { Json } from '../../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../../test-api.ts';

/** Ends of commands without readers, as events: the API, Postgres and a real agent. */
let api: TestApi;
let agent: TestAgent;
let watches: ExecutionEndWatch[] = [];

beforeAll(async () => {
  agent = await TestAgent.start({ boot: { platformToken, init: bootOf({}) } });
  api = await startApi({
    planName: 'pro',
    platformToken: () => platformToken,
    env: { PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8' },
  });
});
afterAll(async () => {
  await Promise.all(watches.map((each) => each.stop()));
  await api?.stop();
  await agent?.stop();
});
beforeEach(async () => {
  await Promise.all(watches.map((each) => each.stop()));
  watches = [];
  for (const table of ['webhook_endpoints', 'webhook_deliveries', 'watched_runs', 'events']) {
    await rows(`delete from ${table}`);
  }
});

const rows = async (query: string): Promise<Json[]> => (await api.orm.em.fork().execute(query)) as Json[];

/** Starts the watch that each process of the API has. */
function startWatch(): ExecutionEndWatch {
  const watch = new ExecutionEndWatch(api.dependencies);
  watches.push(watch);
  watch.start();
  return watch;
}

async function subscribe(caller: Caller, ...types: string[]): Promise<string> {
  const wanted = { url: 'http://127.0.0.1:9999/', event_types: types };
  const reply = await api.send(caller, 'POST', '/v1/webhooks', wanted);
  expect(reply.status).toBe(201);
  return reply.body.data.endpoint_id;
}

async function addSandbox(owner: Caller, agentPort = agent.port): Promise<SandboxId> {
  const { sandbox_id: sandboxId } = (await api.send(owner, 'POST', '/v1/sandboxes', { timeout: 3600 })).body.data;
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { agentAddress: '127.0.0.1', agentPort });
  return sandboxId as SandboxId;
}

const exec = (caller: Caller, sandboxId: string, command: string) =>
  api.send(caller, 'POST', `/v1/sandboxes/${sandboxId}/exec`, { command });
const ends = () => rows("select * from events where type = 'exec.finished' order by data ->> 'started_at'");
const untilEnds = async (count: number): Promise<Json[]> => {
  await until(async () => (await ends()).length >= count);
  return ends();
};

/** A server in place of an agent. */
class LyingAgent {
  readonly #server: http.Server;
  /** The maximum number of requests that were open at the same time. */
  maxOpen = 0;
  #open = 0;

  /** @param answer gets a start, or null for a question; if it returns null, there is no answer */
  private constructor(answer: (start: Json | null) => object | null) {
    this.#server = http.createServer(async (request, response) => {
      this.#open += 1;
      this.maxOpen = Math.max(this.maxOpen, this.#open);
      response.on('close', () => {
        this.#open -= 1;
      });
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const reply = answer(request.method === 'POST' ? JSON.parse(Buffer.concat(chunks).toString()) : null);
      if (reply) response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply));
    });
  }

  static async start(answer: (start: Json | null) => object | null): Promise<LyingAgent> {
    const agent = new LyingAgent(answer);
    await new Promise<void>((resolve) => agent.#server.listen(0, '127.0.0.1', resolve));
    return agent;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Runs a command to its end without reading its output. */
async function runUnread(sandboxId: string, command: string): Promise<Json> {
  const started = await exec(api.root, sandboxId, command);
  expect(started.status).toBe(201);
  await until(async () => !(await api.send(api.root, 'GET', `/v1/sandboxes/${sandboxId}/exec/active`)).body.active);
  return started.body;
}

test('the end of a command without readers is an event for subscribers of its type', async () => {
  const sandboxId = await addSandbox(api.root);
  await runUnread(sandboxId, 'true');
  expect(await rows('select * from watched_runs')).toEqual([]);
  const [named, family, everything] = [
    await subscribe(api.root, 'exec.finished'),
    await subscribe(api.root, 'sandbox.*', 'exec.*'),
    await subscribe(api.root, '*'),
  ];
  startWatch();
  const { started_at: startedAt } = await runUnread(sandboxId, 'sleep 0.2; exit 3');
  const [event] = await untilEnds(1);
  const data = {
    ...{ sandbox_id: sandboxId, run_id: expect.stringMatching(/^\w{20}$/), started_at: startedAt },
    ...{ exit_code: 3, error: null, duration_ms: expect.any(Number), sequence: 1 },
  };
  expect(event).toMatchObject({ account_id: api.root.accountId, user_id: api.root.userId, sequence: 1, data });
  expect(Object.keys(event!.data).sort()).toEqual(Object.keys(data).sort());
  expect(event!.object_id).toBe(`run-${event!.data.run_id}`);
  expect(event!.data.duration_ms).toBeGreaterThanOrEqual(200);
  const receivers = (await rows('select endpoint_id from webhook_deliveries')).map((row) => row.endpoint_id);
  expect(receivers.sort()).toEqual([named, family].sort());
  expect(receivers).not.toContain(everything);
  expect(await rows('select * from watched_runs')).toEqual([]);
});

test("events belong to the sandbox's owner, regardless of the caller; executions without a subscriber are not watched", async () => {
  const [member, stranger] = [await api.addUser(api.root), await api.addAccount()];
  await subscribe(api.root, 'exec.finished');
  await subscribe(stranger, 'exec.finished');
  const sandboxId = await addSandbox(member);
  await runUnread(sandboxId, 'true');
  expect(await rows('select * from watched_runs')).toEqual([]);
  await subscribe(member, 'exec.finished');
  await runUnread(sandboxId, 'true');
  startWatch();
  const [event] = await untilEnds(1);
  expect(event).toMatchObject({ account_id: member.accountId, user_id: member.userId });
  expect(await rows('select * from webhook_deliveries')).toHaveLength(1);
});

test('ends without a running process are reported later, once, each with its own exit code', async () => {
  await subscribe(api.root, 'exec.finished');
  const sandboxId = await addSandbox(api.root);
  for (const code of [1, 2, 3]) await runUnread(sandboxId, `exit ${code}`);
  const running = await exec(api.root, sandboxId, 'sleep 600');
  expect(running.status).toBe(201);
  const first = startWatch();
  startWatch();
  expect((await untilEnds(3)).map(({ data }) => data.exit_code)).toEqual([1, 2, 3]);
  // Other processes continue when a process stops during its question.
  await first.stop();
  expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${sandboxId}/exec`)).body).toEqual({ cancelled: true });
  const all = await untilEnds(4);
  expect(all.map(({ data }) => [data.exit_code, data.error])).toEqual([
    [1, null],
    [2, null],
    [3, null],
    [null, 'cancelled'],
  ]);
  expect(await rows('select * from watched_runs')).toEqual([]);
});

test('a refused command has no end; a command that the agent has forgotten was interrupted', async () => {
  await subscribe(api.root, 'exec.finished');
  const other = await TestAgent.start({ boot: { platformToken, init: bootOf({}) } });
  const sandboxId = await addSandbox(api.root, other.port);
  expect((await exec(api.root, sandboxId, 'sleep 600')).status).toBe(201);
  expect((await exec(api.root, sandboxId, 'true')).body.code).toBe('exec_in_progress');
  expect(await rows('select * from watched_runs')).toHaveLength(1);
  await other.stop();
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { agentPort: agent.port });
  startWatch();
  const [event] = await untilEnds(1);
  expect(event!.data).toMatchObject({ exit_code: null, error: 'exec_interrupted', duration_ms: null });
});

test('a paused sandbox is waited for, and a start that failed has no event', async () => {
  await subscribe(api.root, 'exec.finished');
  const silent = await HostileServer.start(() => {});
  const sandboxId = await addSandbox(api.root, silent.port);
  const lost = exec(api.root, sandboxId, 'true');
  await until(async () => (await rows('select * from watched_runs')).length === 1);
  await silent.stop();
  expect((await lost).status).toBe(503);
  expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
  await rows('update watched_runs set ask_at = now()');
  const watch = startWatch();
  await until(async () => (await rows('select * from watched_runs where ask_at > now()')).length === 1);
  expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { agentAddress: '127.0.0.1', agentPort: agent.port });
  await rows('update watched_runs set ask_at = now()');
  watch.wake();
  await until(async () => (await rows('select * from watched_runs')).length === 0);
  expect(await ends()).toEqual([]);
});

test('an agent that accepts everything and lies causes one event per start, at most 64 unreported ones', async () => {
  await subscribe(api.root, 'exec.finished');
  let isSilent = true;
  let asked = 0;
  const lying = await LyingAgent.start((start) => {
    if (start) return { runId: start.runId };
    asked += 1;
    return isSilent ? null : { ended: true, exitCode: 7, error: '__proto__', durationMs: 2 ** 52 };
  });
  const sandboxId = await addSandbox(api.root, lying.port);
  for (let number = 0; number < 70; number += 1) expect((await exec(api.root, sandboxId, 'true')).status).toBe(201);
  expect(await rows('select * from watched_runs')).toHaveLength(64);
  startWatch();
  await until(() => asked > 0);
  isSilent = false;
  await until(async () => {
    await rows("update watched_runs set ask_at = now() where ask_at < now() + interval '10 seconds'");
    return (await ends()).length === 64;
  });
  for (const { data } of await ends()) {
    expect(data).toMatchObject({ exit_code: null, error: 'exec_interrupted', sequence: 1 });
    expect(data.duration_ms).toBeLessThan(600_000);
  }
  // A process asks a sandbox one question at a time.
  expect(lying.maxOpen).toBe(1);
  await lying.stop();
});

test('the end of a sandbox ends its commands', async () => {
  await subscribe(api.root, 'exec.finished');
  const sandboxId = await addSandbox(api.root);
  expect((await exec(api.root, sandboxId, 'sleep 600')).status).toBe(201);
  expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/terminate`)).status).toBe(202);
  startWatch();
  const [event] = await untilEnds(1);
  expect(event!.data).toMatchObject({ exit_code: null, error: 'sandbox_ended', duration_ms: null });
  await fetch(`${agent.address}/platform/exec`, { method: 'DELETE', headers: { 'x-platform-token': platformToken } });
});
