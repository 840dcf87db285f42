import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowFailedError } from '@temporalio/client';
import { pino } from 'pino';
import { SandboxNews } from '../../../api/routes/sandboxes/sandbox-news.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import { query } from '../../../db/core/query.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { hostLostSignal, lifeQuery } from '../../../workflows/sandboxes/life/messages.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

/**
 * The orders in which the host, the API, the relay and the workflow may act on a sandbox whose host was told to start it
 * directly. Without a relay of its own, the plane starts a workflow only when a test says so.
 */
const driver = new MemoryDriver();
let plane: ControlPlane;
let news: SandboxNews;
let api: TestApi;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
  news = new SandboxNews({ databaseUrl: plane.settings.DATABASE_URL, logger: pino({ level: 'silent' }) });
  news.start();
  plane.directWork.start();
  const { orm, account, commands } = plane;
  api = await startApi({ on: { orm, account, commands, sandboxNews: news } });
  await untilHostHears();
}, 120_000);
afterEach(() => {
  driver.hold = null;
  driver.failNext.clear();
});
afterAll(async () => {
  await api.stop();
  await news.close();
  await plane.stop();
});

async function untilHostHears(): Promise<void> {
  await until(async () => {
    const [row] = await query<{ hears_starts: boolean }>(
      plane.orm.em.fork(),
      'select hears_starts from hosts where host_id = ?',
      [plane.hostId],
    );
    return row!.hears_starts;
  });
}

const row = (sandboxId: SandboxId) => plane.row(sandboxId);
const createsOf = (sandboxId: SandboxId) => driver.calls.filter((call) => call === `create ${sandboxId}`).length;
const create = (body: object = {}) => api.send(api.root, 'POST', '/v1/sandboxes', { cpu_count: 1, ...body });

/** Admits a sandbox and notifies its host. No API waits for the start. */
const announced = () => plane.admit({}, { requestId: null });

async function eventsOf(sandboxId: SandboxId): Promise<string[]> {
  const events = await plane.orm.em.fork().find(Event, { objectId: sandboxId }, { orderBy: { sequence: 'asc' } });
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, index) => index + 1));
  return events.map((event) => event.type);
}

/** The types of the activities that the workflow has scheduled. */
async function activitiesOf(sandboxId: SandboxId): Promise<string[]> {
  const { events } = await plane.client.workflow.getHandle(sandboxId).fetchHistory();
  return (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? []);
}

/** The relay starts the workflow, as it does when the API died. */
async function relayed(sandboxId: SandboxId): Promise<void> {
  await until(async () => {
    await plane.relay.relayOnce();
    return (await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })) === 0;
  });
}

async function workflowSays(sandboxId: SandboxId, status: string): Promise<void> {
  await until(async () => (await plane.client.workflow.getHandle(sandboxId).query(lifeQuery)).status === status);
}

/** Waits until the workflow has closed. With RECORD_HISTORIES=1 its history is stored for the replay tests. */
async function recordEnd(name: string, sandboxId: SandboxId): Promise<void> {
  const handle = plane.client.workflow.getHandle(sandboxId);
  await handle.result().catch((error) => expect(error).toBeInstanceOf(WorkflowFailedError));
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, name, sandboxId);
}

async function held(): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  driver.hold = promise;
  return resolve;
}

describe('a create', () => {
  test('replies when the host has started the sandbox, and its workflow adopts it without an activity', async () => {
    const { status, body } = await create();
    expect([status, body.data.status, body.data.substatus]).toEqual([201, 'running', null]);
    const { sandbox_id: sandboxId, started_at: startedAt } = body.data;
    await until(async () => (await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })) === 0);
    await workflowSays(sandboxId, 'running');
    expect(await activitiesOf(sandboxId)).toEqual([]);
    expect(createsOf(sandboxId)).toBe(1);
    expect(await row(sandboxId)).toMatchObject({ run: 1, status: 'running', phaseKind: 'running' });
    const view = await plane.client.workflow.getHandle(sandboxId).query(lifeQuery);
    expect(Date.parse(view.nextDeadline!)).toBe(Date.parse(startedAt) + 300_000);
    expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
    expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
    expect((await row(sandboxId)).run).toBe(2);
    expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${sandboxId}`)).status).toBe(202);
    await until(async () => (await row(sandboxId)).status === 'terminated');
    await recordEnd('sandbox-started-directly', sandboxId);
    expect((await eventsOf(sandboxId)).slice(0, 4)).toEqual([
      ...['sandbox.created', 'sandbox.started', 'sandbox.paused', 'sandbox.resumed'],
    ]);
  });

  test('can be followed by a command at once', async () => {
    const { body } = await create();
    const { sandbox_id: sandboxId } = body.data;
    const reply = await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/pause`);
    expect([reply.status, reply.body.data.status]).toEqual([200, 'paused']);
    expect(createsOf(sandboxId)).toBe(1);
  });

  test('whose start fails gets the failure, and the workflow does not try a final failure again', async () => {
    driver.failNext.set('create', new DriverError('start_failed', 'It does not start'));
    const { status, body } = await create();
    expect([status, body.data.status, body.data.reason]).toEqual([201, 'failed', 'start_failed']);
    expect(createsOf(body.data.sandbox_id)).toBe(1);
  });

  test('whose start fails for the moment succeeds with the next attempt of the workflow', async () => {
    driver.failNext.set('create', new DriverError('start_failed', 'Not now', { retryable: true }));
    const { status, body } = await create();
    expect([status, body.data.status]).toEqual([201, 'running']);
    expect(createsOf(body.data.sandbox_id)).toBe(2);
    expect(await activitiesOf(body.data.sandbox_id)).toContain('startSandbox');
  });

  test('with is_async leaves the start to the workflow', async () => {
    const { body } = await create({ is_async: true });
    const { sandbox_id: sandboxId } = body.data;
    await until(async () => (await row(sandboxId)).status === 'running');
    expect(await activitiesOf(sandboxId)).toContain('startSandbox');
  });

  test('on a host that does not listen leaves the start to the workflow', async () => {
    await query(plane.orm.em.fork(), 'update hosts set hears_starts = false where host_id = ?', [plane.hostId]);
    const { status, body } = await create();
    await query(plane.orm.em.fork(), 'update hosts set hears_starts = true where host_id = ?', [plane.hostId]);
    expect([status, body.data.status]).toEqual([201, 'running']);
    expect(await activitiesOf(body.data.sandbox_id)).toContain('startSandbox');
  });

  test('whose start takes long is continued by the workflow, which joins the start', async () => {
    const release = await held();
    driver.calls.length = 0;
    const reply = create();
    await until(async () => driver.calls.length > 0);
    const sandboxId = driver.calls[0]!.slice('create '.length) as SandboxId;
    await until(async () => (await activitiesOf(sandboxId).catch((): string[] => [])).includes('startSandbox'));
    release();
    const { status, body } = await reply;
    expect([status, body.data.status]).toEqual([201, 'running']);
    expect(createsOf(sandboxId)).toBe(1);
    expect(await row(sandboxId)).toMatchObject({ run: 1 });
  });
});

describe('an API that dies after the admission', () => {
  test('leaves a sandbox that runs, and the relay starts its workflow, which adopts it', async () => {
    const { sandboxId } = await announced();
    await until(async () => (await row(sandboxId)).status === 'running');
    const { startedAt } = await row(sandboxId);
    await relayed(sandboxId);
    await workflowSays(sandboxId, 'running');
    expect(createsOf(sandboxId)).toBe(1);
    expect((await row(sandboxId)).startedAt).toEqual(startedAt);
    expect(await eventsOf(sandboxId)).toEqual(['sandbox.created', 'sandbox.started']);
    await plane.commands.terminate(await row(sandboxId), { forget: true });
    await recordEnd('sandbox-adopted', sandboxId);
  });

  test('leaves a start in progress to the workflow, which joins it', async () => {
    const release = await held();
    const { sandboxId } = await announced();
    await until(async () => createsOf(sandboxId) === 1);
    await relayed(sandboxId);
    await until(async () => (await activitiesOf(sandboxId).catch((): string[] => [])).includes('startSandbox'));
    release();
    await workflowSays(sandboxId, 'running');
    expect(createsOf(sandboxId)).toBe(1);
    expect(await eventsOf(sandboxId)).toEqual(['sandbox.created', 'sandbox.started']);
  });
});

describe('a termination', () => {
  test('before the host hears of the start: nothing is started', async () => {
    const sandbox = await plane.admit();
    await plane.commands.terminate(sandbox, { forget: false });
    await until(async () => (await row(sandbox.sandboxId)).status === 'terminated');
    const before = createsOf(sandbox.sandboxId);
    await plane.starts.startDirectly(sandbox.sandboxId, null);
    expect(createsOf(sandbox.sandboxId)).toBe(before);
    expect((await row(sandbox.sandboxId)).status).toBe('terminated');
    expect(driver.states.has(sandbox.sandboxId)).toBe(false);
  });

  test('during the start cancels it, and nothing is left', async () => {
    await held();
    const { sandboxId } = await announced();
    await until(async () => createsOf(sandboxId) === 1);
    await plane.commands.terminate(await row(sandboxId), { forget: false });
    await until(async () => (await row(sandboxId)).status === 'terminated');
    expect(driver.states.has(sandboxId)).toBe(false);
    expect(await eventsOf(sandboxId)).toEqual(['sandbox.created', 'sandbox.terminated']);
  });

  test('after the start and before the workflow: the sandbox ran and ends', async () => {
    const { sandboxId } = await announced();
    await until(async () => (await row(sandboxId)).status === 'running');
    await plane.commands.terminate(await row(sandboxId), { forget: false });
    await until(async () => (await row(sandboxId)).status === 'terminated');
    expect(driver.states.has(sandboxId)).toBe(false);
    const events = await eventsOf(sandboxId);
    expect(events).toEqual(['sandbox.created', 'sandbox.started', 'sandbox.stopped', 'sandbox.terminated']);
  });
});

describe('a start whose claim no longer holds', () => {
  test.each([
    ['the sandbox ends', "update sandboxes set status = 'terminating' where sandbox_id = ?"],
    ['the workflow has begun another start', 'update sandboxes set run = 2 where sandbox_id = ?'],
    ['the sandbox was placed elsewhere', 'update sandboxes set run = null where sandbox_id = ?'],
  ])('writes nothing and removes what it has made, because %s', async (_, change) => {
    const release = await held();
    const { sandboxId } = await announced();
    await until(async () => createsOf(sandboxId) === 1);
    // No step is written after this one.
    await until(async () => (await row(sandboxId)).substatus === 'deploying');
    await query(plane.orm.em.fork(), change, [sandboxId]);
    const before = await row(sandboxId);
    release();
    await until(async () => driver.calls.includes(`remove ${sandboxId}`));
    expect(driver.states.has(sandboxId)).toBe(false);
    expect(await row(sandboxId)).toEqual(before);
    expect(await eventsOf(sandboxId)).toEqual(['sandbox.created']);
    await query(plane.orm.em.fork(), 'delete from outbox where workflow_id = ?', [sandboxId]);
  });

  test('is written all the same after another change of the row', async () => {
    const release = await held();
    const { sandboxId } = await announced();
    await until(async () => createsOf(sandboxId) === 1);
    await query(plane.orm.em.fork(), "update sandboxes set description = 'changed' where sandbox_id = ?", [sandboxId]);
    release();
    await until(async () => (await row(sandboxId)).status === 'running');
    expect((await row(sandboxId)).description).toBe('changed');
    await relayed(sandboxId);
  });
});

test('a notification that arrives after the workflow has begun the start changes nothing', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  const before = await row(sandbox.sandboxId);
  await plane.starts.startDirectly(sandbox.sandboxId, null);
  expect(await row(sandbox.sandboxId)).toEqual(before);
  expect(createsOf(sandbox.sandboxId)).toBe(1);
});

test('a host that has lost its lease claims nothing', async () => {
  const sandbox = await plane.admit();
  await query(plane.orm.em.fork(), "update hosts set lease_expires_at = now() - interval '1 s' where host_id = ?", [
    plane.hostId,
  ]);
  await plane.starts.startDirectly(sandbox.sandboxId, null);
  await query(plane.orm.em.fork(), "update hosts set lease_expires_at = now() + interval '600 s' where host_id = ?", [
    plane.hostId,
  ]);
  expect((await row(sandbox.sandboxId)).status).toBe('created');
  await plane.commands.start(sandbox, { wait: true });
  expect((await row(sandbox.sandboxId)).status).toBe('running');
});

test('processes that end before the workflow begins are reported to it when it has begun', async () => {
  const { sandboxId } = await announced();
  await until(async () => (await row(sandboxId)).status === 'running');
  driver.exit(sandboxId, { exitCode: 3, outOfMemory: false, commandOutput: 'the end' });
  await relayed(sandboxId);
  await until(async () => (await row(sandboxId)).status === 'failed');
  expect(await row(sandboxId)).toMatchObject({ reason: 'runtime_exited', failure: { exitCode: 3 } });
});

test('a host that is lost after the start and before the workflow: the sandbox fails, and is never started elsewhere', async () => {
  const { sandboxId } = await announced();
  await until(async () => (await row(sandboxId)).status === 'running');
  await plane.stopHosts();
  await relayed(sandboxId);
  await until(async () => (await activitiesOf(sandboxId)).includes('startSandbox'));
  await plane.client.workflow.getHandle(sandboxId).signal(hostLostSignal, { hostId: plane.hostId, run: 1 });
  await until(async () => (await row(sandboxId)).status === 'failed');
  expect(await row(sandboxId)).toMatchObject({ reason: 'host_lost', hostId: plane.hostId });
  await recordEnd('sandbox-host-lost-before-its-workflow', sandboxId);
  expect(await eventsOf(sandboxId)).toEqual([
    'sandbox.created',
    'sandbox.started',
    'sandbox.stopped',
    'sandbox.failed',
  ]);
});
