import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import { pino } from 'pino';
import { ClaimedMoves } from '../../../api/routes/sandboxes/claimed-moves.ts';
import { TemporalSandboxCommands } from '../../../api/routes/sandboxes/commands.ts';
import { SandboxNews } from '../../../api/routes/sandboxes/sandbox-news.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import { query } from '../../../db/core/query.ts';
import { DirectMoves } from '../../../db/sandboxes/direct-moves.ts';
import { newsChannel } from '../../../db/sandboxes/direct-news.ts';
import { MovedDirectly } from '../../../db/sandboxes/sandbox-changes.ts';
import { SandboxLifeRepository } from '../../../db/sandboxes/sandbox-life.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { DriverError } from '../../../runtime/driver.ts';
import {
  adoptUpdate,
  hostLostSignal,
  lifeQuery,
  movedDirectlySignal,
  pauseRequestedSignal,
} from '../../../workflows/sandboxes/life/messages.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { actionsIn } from '../../support/billed-actions.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

/**
 * The orders in which the API, the host, the relay and the workflow may act on a sandbox that is paused or resumed
 * without its workflow. The plane has no relay of its own, so the workflow hears of a move only when a test says so, as
 * after the death of an API.
 */
const silent = pino({ level: 'silent' });
const driver = new MemoryDriver();
let plane: ControlPlane;
let news: SandboxNews;
let api: TestApi;
let moves: DirectMoves;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
  const { orm, client, account, plans } = plane;
  news = new SandboxNews({ databaseUrl: plane.settings.DATABASE_URL, logger: silent });
  news.start();
  plane.directWork.start();
  moves = new DirectMoves(orm.em, plans);
  const claimedMoves = new ClaimedMoves({ moves, news, currentRequestId: () => undefined });
  const commands = new TemporalSandboxCommands({ client, orm, logger: silent, claimedMoves });
  api = await startApi({ on: { orm, account, commands, sandboxNews: news } });
  await until(async () => (await sql<{ hears_moves: boolean }>('select hears_moves from hosts'))[0]!.hears_moves);
}, 120_000);
afterEach(() => {
  driver.holds.clear();
  driver.hangs.clear();
  driver.failNext.clear();
  driver.failAlways.clear();
});
afterAll(async () => {
  await api.stop();
  await news.close();
  await plane.stop();
});

const sql = <Row extends object>(text: string, values: unknown[] = []) =>
  query<Row>(plane.orm.em.fork(), text, values as string[]);
const row = (sandboxId: SandboxId) => plane.row(sandboxId);
const send = (sandboxId: SandboxId, command: string, body: object = {}) =>
  api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/${command}`, body);
const callsOf = (sandboxId: SandboxId, call: string) =>
  driver.calls.filter((each) => each === `${call} ${sandboxId}`).length;
const handleOf = (sandboxId: SandboxId) => plane.client.workflow.getHandle(sandboxId);

/** A running sandbox whose workflow knows it. */
async function running(body: object = {}): Promise<SandboxId> {
  const reply = await api.send(api.root, 'POST', '/v1/sandboxes', { cpu_count: 1, ...body });
  expect([reply.status, reply.body.data?.status]).toEqual([201, 'running']);
  const { sandbox_id: sandboxId } = reply.body.data;
  await workflowSays(sandboxId, 'running');
  return sandboxId;
}

async function paused(body: object = {}): Promise<SandboxId> {
  const sandboxId = await running(body);
  expect((await send(sandboxId, 'pause')).status).toBe(200);
  await workflowSays(sandboxId, 'paused');
  await until(async () => !(await row(sandboxId)).movedDirectly);
  return sandboxId;
}

/** The API claims the move and dies. The host makes the move. */
async function movedUntold(sandboxId: SandboxId, work: 'pause' | 'resume'): Promise<void> {
  const sandbox = await row(sandboxId);
  expect(await (work === 'pause' ? moves.claimPause(sandbox, null) : moves.claimResume(sandbox, null))).not.toBeNull();
  const status = work === 'pause' ? 'paused' : 'running';
  await until(async () => (await row(sandboxId)).status === status);
}

/** Claims the move, of which the host does not hear. */
async function claimedUnheard(sandboxId: SandboxId, work: 'pause' | 'resume'): Promise<void> {
  const sandbox = await row(sandboxId);
  // Another host's channel.
  await sql(
    `insert into hosts (host_id, region, region_name, lease_expires_at, hears_moves)
     values ('host-deaf', 'local', 'Local', now() + interval '1 hour', true) on conflict do nothing`,
  );
  await sql("update sandboxes set host_id = 'host-deaf' where sandbox_id = ?", [sandboxId]);
  const deaf = { ...sandbox, hostId: 'host-deaf' };
  if (work === 'pause') expect(await moves.claimPause(deaf, null)).not.toBeNull();
  else expect(await moves.claimResume(deaf, null)).not.toBeNull();
  await sql('update sandboxes set host_id = ? where sandbox_id = ?', [plane.hostId, sandboxId]);
}

/** The relay tells the workflow, as it does some seconds after the claim. */
async function relayed(sandboxId: SandboxId): Promise<void> {
  await sql('update outbox set not_before = now() where workflow_id = ?', [sandboxId]);
  await until(async () => {
    await plane.relay.relayOnce();
    return (await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })) === 0;
  });
}

async function workflowSays(sandboxId: SandboxId, status: string): Promise<void> {
  // The workflow begins beside the reply to the create.
  const notYet = (error: unknown) => {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    return null;
  };
  await until(async () => (await handleOf(sandboxId).query(lifeQuery).catch(notYet))?.status === status);
}

/** The types of the activities that the workflow has scheduled. */
async function activitiesOf(sandboxId: SandboxId): Promise<string[]> {
  const { events } = await handleOf(sandboxId).fetchHistory();
  return (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? []);
}

async function eventsOf(sandboxId: SandboxId): Promise<string[]> {
  const events = await plane.orm.em.fork().find(Event, { objectId: sandboxId }, { orderBy: { sequence: 'asc' } });
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, index) => index + 1));
  return events.map((event) => event.type.replace('sandbox.', '')).slice(2);
}

/** Ends the sandbox. With RECORD_HISTORIES=1 its history is stored for the replay tests. */
async function recordEnd(name: string, sandboxId: SandboxId): Promise<void> {
  await plane.commands.terminate(await row(sandboxId), { forget: false });
  await handleOf(sandboxId)
    .result()
    .catch((error) => expect(error).toBeInstanceOf(WorkflowFailedError));
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, name, sandboxId);
}

describe('a pause and a resume', () => {
  test('reply when the host has made them, and the workflow adopts them without an activity', async () => {
    const sandboxId = await running({ timeout: 600 });
    const pause = await send(sandboxId, 'pause');
    expect([pause.status, pause.body.data.status, pause.body.data.reason]).toEqual([200, 'paused', 'user_requested']);
    expect(driver.states.get(sandboxId)).toBe('paused');
    await workflowSays(sandboxId, 'paused');
    await until(async () => (await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })) === 0);
    expect(await row(sandboxId)).toMatchObject({ movedDirectly: false, phaseKind: 'paused', pausingAt: null });
    const resume = await send(sandboxId, 'resume');
    expect([resume.status, resume.body.data.status]).toEqual([200, 'running']);
    await workflowSays(sandboxId, 'running');
    const resumed = await row(sandboxId);
    expect(resumed).toMatchObject({ run: 2, phaseKind: 'running', pausedAt: null });
    const { nextDeadline } = await handleOf(sandboxId).query(lifeQuery);
    expect(Date.parse(nextDeadline!)).toBe(resumed.resumedAt!.getTime() + 600_000);
    expect(await activitiesOf(sandboxId)).toEqual([]);
    expect(await eventsOf(sandboxId)).toEqual(['paused', 'resumed']);
    expect([callsOf(sandboxId, 'pause'), callsOf(sandboxId, 'resume')]).toEqual([1, 1]);
    await recordEnd('sandbox-moved-directly', sandboxId);
    const { events } = await handleOf(sandboxId).fetchHistory();
    // docs/operations.md names the number. Two changes at the same time may share one.
    expect(Math.abs(actionsIn(events!) - 19)).toBeLessThanOrEqual(1);
  });

  test('may follow each other at once, and the workflow adopts the last one', async () => {
    const sandboxId = await running();
    for (let round = 0; round < 5; round++) {
      expect((await send(sandboxId, 'pause')).body.data.status).toBe('paused');
      expect((await send(sandboxId, 'resume')).body.data.status).toBe('running');
    }
    await until(async () => !(await row(sandboxId)).movedDirectly);
    await workflowSays(sandboxId, 'running');
    expect(await row(sandboxId)).toMatchObject({ run: 6, status: 'running' });
    expect(await activitiesOf(sandboxId)).toEqual([]);
    expect(await eventsOf(sandboxId)).toEqual(Array.from({ length: 5 }, () => ['paused', 'resumed']).flat());
  });

  test('come before each later command, also when the workflow has not heard of them', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    expect((await send(sandboxId, 'pause')).body.code).toBe('sandbox_not_running');
    await movedUntold(sandboxId, 'resume');
    expect((await send(sandboxId, 'resume')).body.code).toBe('sandbox_not_paused');
    await movedUntold(sandboxId, 'pause');
    const connected = await send(sandboxId, 'connect', { timeout: 400 });
    expect([connected.status, connected.body.data.status, connected.body.data.timeout]).toEqual([200, 'running', 400]);
    expect(driver.states.get(sandboxId)).toBe('running');
    await movedUntold(sandboxId, 'pause');
    const restarted = await send(sandboxId, 'restart');
    expect([restarted.body.data.status, restarted.body.data.reason]).toEqual(['running', 'restarted']);
    expect(await eventsOf(sandboxId)).toEqual([...['paused', 'resumed', 'paused', 'resumed', 'paused', 'restarted']]);
    await recordEnd('sandbox-commands-after-direct-moves', sandboxId);
  });

  test('go through the workflow with is_async, and on a host that does not listen', async () => {
    const sandboxId = await running();
    expect((await send(sandboxId, 'pause', { is_async: true })).status).toBe(200);
    await until(async () => (await row(sandboxId)).status === 'paused');
    await sql('update hosts set hears_moves = false where host_id = ?', [plane.hostId]);
    expect((await send(sandboxId, 'resume')).body.data.status).toBe('running');
    await sql('update hosts set hears_moves = true where host_id = ?', [plane.hostId]);
    expect(await activitiesOf(sandboxId)).toEqual(['pauseSandbox', 'resumeSandbox']);
  });

  test('at once from two callers: one is made, and the other caller is refused', async () => {
    const sandboxId = await running();
    for (const [command, status] of Array.from({ length: 20 }, () => [
      ['pause', 'paused'],
      ['resume', 'running'],
    ]).flat() as [string, string][]) {
      const second = delay(Math.random() * 10).then(() => send(sandboxId, command));
      const replies = await Promise.all([send(sandboxId, command), second]);
      const answers = replies.map(({ body }) => body.data?.status ?? body.code);
      expect(answers.sort()).toEqual([status, `sandbox_not_${status === 'paused' ? 'running' : 'paused'}`].sort());
      await workflowSays(sandboxId, status);
      expect((await row(sandboxId)).status).toBe(status);
    }
    expect(await eventsOf(sandboxId)).toEqual(Array.from({ length: 20 }, () => ['paused', 'resumed']).flat());
    await recordEnd('sandbox-two-callers', sandboxId);
  });

  test('are not confused by late news of an earlier move', async () => {
    const sandboxId = await paused();
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    const reply = send(sandboxId, 'resume');
    await until(async () => callsOf(sandboxId, 'resume') === 1);
    await sql('select pg_notify(?, ?)', [newsChannel, `${sandboxId} paused 1 1`]);
    await sql('select pg_notify(?, ?)', [newsChannel, `${sandboxId} running 1 1`]);
    await delay(100);
    expect(await Promise.race([reply, delay(1, 'waits')])).toBe('waits');
    resolve();
    expect((await reply).body.data.status).toBe('running');
    expect(await activitiesOf(sandboxId)).toEqual([]);
  });

  test('that is not admitted changes nothing', async () => {
    const sandboxId = await paused();
    await sql("update accounts set status = 'suspended' where account_id = ?", [plane.account.accountId]);
    const before = await row(sandboxId);
    await expect(moves.claimResume(before, null)).rejects.toMatchObject({ code: 'account_suspended' });
    await sql("update accounts set status = 'active' where account_id = ?", [plane.account.accountId]);
    expect(await row(sandboxId)).toEqual(before);
    expect(await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })).toBe(0);
  });
});

describe('a move that the host cannot make', () => {
  test('a failed pause is undone by the workflow, and the caller gets its error', async () => {
    const sandboxId = await running();
    driver.failAlways.set('pause', new DriverError('pause_failed', 'It does not freeze'));
    const { status, body } = await send(sandboxId, 'pause');
    expect([status, body.code]).toEqual([409, 'pause_failed']);
    expect(await row(sandboxId)).toMatchObject({ status: 'running', reason: 'pause_failed', movedDirectly: false });
    await workflowSays(sandboxId, 'running');
    expect(await eventsOf(sandboxId)).toEqual([]);
    driver.failAlways.clear();
    expect((await send(sandboxId, 'pause')).body.data.status).toBe('paused');
    await recordEnd('sandbox-direct-pause-failed', sandboxId);
  });

  test('a resume that fails for the moment succeeds through the workflow, with the same number', async () => {
    const sandboxId = await paused();
    driver.failNext.set('resume', new DriverError('agent_not_answering', 'Not now', { retryable: true }));
    const { status, body } = await send(sandboxId, 'resume');
    expect([status, body.data.status]).toEqual([200, 'running']);
    expect((await row(sandboxId)).run).toBe(2);
    expect(driver.runs.get(sandboxId)).toBe(2);
    expect(await activitiesOf(sandboxId)).toEqual(['resumeSandbox']);
    await recordEnd('sandbox-direct-resume-failed', sandboxId);
  });

  test('a resume that fails finally leaves the sandbox paused', async () => {
    const sandboxId = await paused();
    driver.failAlways.set('resume', new DriverError('start_failed', 'Never'));
    const { status, body } = await send(sandboxId, 'resume');
    expect([status, body.code]).toEqual([409, 'resume_failed']);
    expect(await row(sandboxId)).toMatchObject({ status: 'paused', reason: 'resume_failed', movedDirectly: false });
    await workflowSays(sandboxId, 'paused');
  });

  test('a resume that takes long is continued by the workflow, which waits for the host', async () => {
    const sandboxId = await paused();
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    const reply = send(sandboxId, 'resume');
    await until(async () => (await activitiesOf(sandboxId)).includes('resumeSandbox'));
    resolve();
    expect((await reply).body.data.status).toBe('running');
    expect(await row(sandboxId)).toMatchObject({ run: 2, movedDirectly: false });
    expect(await eventsOf(sandboxId)).toEqual(['paused', 'resumed']);
  });

  test.each(['pause', 'resume'] as const)(
    'a %s of which the host does not hear is made by the workflow',
    async (work) => {
      const sandboxId = await (work === 'pause' ? running() : paused());
      await claimedUnheard(sandboxId, work);
      await relayed(sandboxId);
      await workflowSays(sandboxId, work === 'pause' ? 'paused' : 'running');
      expect(await row(sandboxId)).toMatchObject({ movedDirectly: false, run: work === 'pause' ? 1 : 2 });
      expect(await activitiesOf(sandboxId)).toEqual([`${work}Sandbox`]);
      await recordEnd(`sandbox-direct-${work}-unheard`, sandboxId);
    },
  );
});

test('a move that is taken over while another caller asks for the same is finished', async () => {
  const sandboxId = await running();
  const stale = await row(sandboxId);
  await claimedUnheard(sandboxId, 'pause');
  const second = plane.commands.pause(stale, { wait: true }).catch((error) => error.code);
  const { status } = await handleOf(sandboxId).executeUpdate(adoptUpdate, { args: [{ takeOver: true }] });
  expect(status).toBe('paused');
  expect([undefined, 'sandbox_not_running']).toContain(await second);
  expect(await row(sandboxId)).toMatchObject({ status: 'paused', movedDirectly: false });
  expect(await eventsOf(sandboxId)).toEqual(['paused']);
});

describe('an API that dies after the claim', () => {
  test('the relay tells the workflow, which adopts the move', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    expect((await row(sandboxId)).movedDirectly).toBe(true);
    await relayed(sandboxId);
    await workflowSays(sandboxId, 'paused');
    expect(await activitiesOf(sandboxId)).toEqual([]);
    const { pausedAt, movedDirectly } = await row(sandboxId);
    expect(movedDirectly).toBe(false);
    expect(pausedAt).not.toBeNull();
  });

  test('before the workflow of the sandbox has begun: it begins with the start and adopts the pause', async () => {
    const { sandboxId } = await plane.admit({}, { requestId: null });
    await until(async () => (await row(sandboxId)).status === 'running');
    await movedUntold(sandboxId, 'pause');
    await relayed(sandboxId);
    await workflowSays(sandboxId, 'paused');
    expect(callsOf(sandboxId, 'create')).toBe(1);
    expect((await send(sandboxId, 'resume')).body.data.status).toBe('running');
    await recordEnd('sandbox-paused-before-its-workflow', sandboxId);
  });
});

describe('the workflow acts before it has heard of a move', () => {
  test('its timeout does not end a sandbox that is paused', async () => {
    const sandboxId = await running();
    await plane.commands.setTimeout(await row(sandboxId), { timeoutSeconds: 4 } as never);
    await movedUntold(sandboxId, 'pause');
    await workflowSays(sandboxId, 'paused');
    expect(await row(sandboxId)).toMatchObject({ status: 'paused', reason: 'user_requested', movedDirectly: false });
    expect(await eventsOf(sandboxId)).toEqual(['paused']);
    await recordEnd('sandbox-paused-before-its-timeout', sandboxId);
  });

  test('its expiry does not end a sandbox that runs again, but a caller may', async () => {
    const sandboxId = await paused();
    await movedUntold(sandboxId, 'resume');
    const before = await row(sandboxId);
    const life = new SandboxLifeRepository(plane.orm.em, plane.plans);
    await expect(life.beginTermination(sandboxId, 'persistence_expired')).rejects.toBeInstanceOf(MovedDirectly);
    expect(await row(sandboxId)).toEqual(before);
    expect((await send(sandboxId, 'terminate')).status).toBe(202);
    await until(async () => (await row(sandboxId)).status === 'terminated');
    expect((await row(sandboxId)).movedDirectly).toBe(false);
  });

  test('a pause on behalf of the platform finds the sandbox paused', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    await handleOf(sandboxId).signal(pauseRequestedSignal, { reason: 'host_draining' });
    await workflowSays(sandboxId, 'paused');
    expect(callsOf(sandboxId, 'pause')).toBe(1);
    expect(await row(sandboxId)).toMatchObject({ reason: 'user_requested', movedDirectly: false });
    await recordEnd('sandbox-paused-twice', sandboxId);
  });

  test('a loss of the host leaves a paused sandbox paused', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    await handleOf(sandboxId).signal(hostLostSignal, { hostId: plane.hostId, run: 1 });
    await workflowSays(sandboxId, 'paused');
    expect((await send(sandboxId, 'resume')).body.data.status).toBe('running');
    await workflowSays(sandboxId, 'running');
    await recordEnd('sandbox-host-lost-after-direct-pause', sandboxId);
  });

  test('a loss of the host before a pause and a resume does not concern the new processes', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    await movedUntold(sandboxId, 'resume');
    await handleOf(sandboxId).signal(hostLostSignal, { hostId: plane.hostId, run: 1 });
    await until(async () => !(await row(sandboxId)).movedDirectly);
    await workflowSays(sandboxId, 'running');
    expect((await row(sandboxId)).run).toBe(2);
  });

  test('a loss of the host after a resume fails the sandbox', async () => {
    const sandboxId = await paused();
    await movedUntold(sandboxId, 'resume');
    await handleOf(sandboxId).signal(hostLostSignal, { hostId: plane.hostId, run: 2 });
    await until(async () => (await row(sandboxId)).status === 'failed');
    expect((await row(sandboxId)).reason).toBe('host_lost');
    await recordEnd('sandbox-host-lost-after-direct-resume', sandboxId);
  });

  test('processes that end after a resume fail the sandbox', async () => {
    const sandboxId = await paused();
    await movedUntold(sandboxId, 'resume');
    driver.exit(sandboxId, { exitCode: 3, outOfMemory: false, commandOutput: 'the end' });
    await until(async () => (await row(sandboxId)).status === 'failed');
    expect(await row(sandboxId)).toMatchObject({ reason: 'runtime_exited', failure: { exitCode: 3 } });
    await recordEnd('sandbox-exited-after-direct-resume', sandboxId);
  });

  test('a restart by a caller that has not seen the pause starts the paused sandbox', async () => {
    const sandboxId = await running();
    const stale = await row(sandboxId);
    await movedUntold(sandboxId, 'pause');
    await plane.commands.restart(stale, { storage: null });
    expect(await row(sandboxId)).toMatchObject({
      status: 'running',
      reason: 'restarted',
      run: 2,
      movedDirectly: false,
    });
    await recordEnd('sandbox-restarted-after-direct-pause', sandboxId);
  });

  test('a resume by a caller that has not seen the resume is refused', async () => {
    const sandboxId = await paused();
    const stale = await row(sandboxId);
    await movedUntold(sandboxId, 'resume');
    await expect(plane.commands.resume(stale, { wait: true })).rejects.toMatchObject({ code: 'sandbox_not_paused' });
    expect(callsOf(sandboxId, 'resume')).toBe(1);
    expect(await row(sandboxId)).toMatchObject({ status: 'running', run: 2, movedDirectly: false });
  });

  test('a pause that comes second to a resume in progress is refused', async () => {
    const sandboxId = await running();
    const stale = await row(sandboxId);
    await movedUntold(sandboxId, 'pause');
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    expect(await moves.claimResume(await row(sandboxId), null)).not.toBeNull();
    await expect(plane.commands.pause(stale, { wait: true })).rejects.toMatchObject({ code: 'sandbox_not_running' });
    resolve();
    await until(async () => (await row(sandboxId)).status === 'running');
    await handleOf(sandboxId).signal(movedDirectlySignal, { takeOver: false });
    await until(async () => !(await row(sandboxId)).movedDirectly);
    await workflowSays(sandboxId, 'running');
    expect(await row(sandboxId)).toMatchObject({ status: 'running', run: 2 });
    await recordEnd('sandbox-pause-after-direct-resume', sandboxId);
  });

  test('a connect during a resume waits for it', async () => {
    const sandboxId = await paused();
    const stale = await row(sandboxId);
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    expect(await moves.claimResume(stale, null)).not.toBeNull();
    await until(async () => callsOf(sandboxId, 'resume') === 1);
    const connected = plane.commands.connect(stale, { timeoutSeconds: null });
    await until(async () => (await activitiesOf(sandboxId)).length > 0);
    resolve();
    await connected;
    expect(await row(sandboxId)).toMatchObject({ status: 'running', run: 2, movedDirectly: false });
    expect(await eventsOf(sandboxId)).toEqual(['paused', 'resumed']);
    await recordEnd('sandbox-connect-during-direct-resume', sandboxId);
  });

  test('a connect during a pause that follows a resume waits for both', async () => {
    const sandboxId = await paused();
    const stale = await row(sandboxId);
    await movedUntold(sandboxId, 'resume');
    driver.hangs.add(`pause ${sandboxId}`);
    expect(await moves.claimPause(await row(sandboxId), null)).not.toBeNull();
    await until(async () => callsOf(sandboxId, 'pause') === 2);
    const connected = plane.commands.connect(stale, { timeoutSeconds: null });
    await until(async () => (await activitiesOf(sandboxId)).includes('pauseSandbox'));
    driver.hangs.clear();
    driver.hanging.get(sandboxId)!.abort();
    await connected;
    expect(await row(sandboxId)).toMatchObject({ status: 'running', run: 3, movedDirectly: false });
  });

  test('a word about a move in progress leaves it to the host', async () => {
    const sandboxId = await paused();
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    const reply = send(sandboxId, 'resume');
    await until(async () => (await row(sandboxId)).status === 'resuming');
    await handleOf(sandboxId).signal(movedDirectlySignal, { takeOver: false });
    await workflowSays(sandboxId, 'paused');
    resolve();
    expect((await reply).body.data.status).toBe('running');
    await workflowSays(sandboxId, 'running');
    expect(await activitiesOf(sandboxId)).toEqual([]);
  });
});

describe('an end during a move', () => {
  test.each(['pause', 'resume'] as const)('of a %s wins, and nothing is left', async (work) => {
    const sandboxId = await (work === 'pause' ? running() : paused());
    driver.hangs.add(`${work} ${sandboxId}`);
    const reply = send(sandboxId, work);
    await until(async () => callsOf(sandboxId, work) > 0);
    expect((await send(sandboxId, 'terminate')).status).toBe(202);
    const { status, body } = await reply;
    expect([status, body.code]).toEqual([409, 'sandbox_ended']);
    await until(async () => (await row(sandboxId)).status === 'terminated');
    expect(driver.states.has(sandboxId)).toBe(false);
    expect((await row(sandboxId)).movedDirectly).toBe(false);
  });

  test('answers commands that wait for the workflow to adopt the sandbox, and the workflow closes', async () => {
    for (let round = 0; round < 5; round++) {
      const sandboxId = await running();
      const stale = await row(sandboxId);
      await movedUntold(sandboxId, 'pause');
      const [resumed] = await Promise.allSettled([
        handleOf(sandboxId)
          .signal(movedDirectlySignal, { takeOver: false })
          .then(() => plane.commands.resume(stale, { wait: true })),
        delay(round * 3).then(() => plane.commands.terminate(stale, { forget: false })),
      ]);
      if (resumed.status === 'rejected') expect(resumed.reason.code).toMatch(/^sandbox_(ended|not_paused)$/);
      await handleOf(sandboxId).result();
      expect((await row(sandboxId)).status).toBe('terminated');
    }
  });

  test('by a caller, after an operator has terminated the workflow, needs no adoption', async () => {
    const sandboxId = await running();
    await movedUntold(sandboxId, 'pause');
    await handleOf(sandboxId).terminate('an operator');
    expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${sandboxId}`)).status).toBe(202);
    await until(async () => (await row(sandboxId)).deletedAt !== null);
    expect(await row(sandboxId)).toMatchObject({ movedDirectly: false, holdsCompute: false });
    expect(driver.states.has(sandboxId)).toBe(false);
  });

  test('is not undone by a host that finishes late', async () => {
    const sandboxId = await paused();
    const { promise, resolve } = Promise.withResolvers<void>();
    driver.holds.set('resume', promise);
    expect(await moves.claimResume(await row(sandboxId), null)).not.toBeNull();
    await until(async () => callsOf(sandboxId, 'resume') === 1);
    await sql("update sandboxes set status = 'terminating', moved_directly = false where sandbox_id = ?", [sandboxId]);
    const before = await row(sandboxId);
    resolve();
    await plane.moves.join(sandboxId);
    expect(await row(sandboxId)).toEqual(before);
  });
});

test('a notification that arrives after the workflow has taken over changes nothing', async () => {
  const sandboxId = await running();
  const before = await row(sandboxId);
  await plane.moves.make('pause', sandboxId, null);
  expect(callsOf(sandboxId, 'pause')).toBe(0);
  expect(await row(sandboxId)).toEqual(before);
});
