import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { pino } from 'pino';
import {
  listDeadEntries,
  type OutboxLane,
  requestSignal,
  requestStart,
  reviveEntries,
  takeDueEntries,
} from '../../db/core/outbox.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import { toLifeStart } from '../../db/sandboxes/admission.ts';
import { OutboxRelay } from '../../worker/outbox-relay.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { until } from '../support/until.ts';

const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'team', relay: false });
}, 120_000);
afterAll(() => plane.stop());

const entries = () => plane.orm.em.fork().count(OutboxEntry, {});

test('two relays at once start each of 60 sandboxes exactly once', async () => {
  const sandboxes = [];
  for (let i = 0; i < 60; i++) sandboxes.push(await plane.admit());
  const second = new OutboxRelay({ orm: plane.orm, client: plane.client, logger: pino({ level: 'silent' }) });
  await Promise.all([plane.relay.relayOnce(), second.relayOnce(), plane.relay.relayOnce(), second.relayOnce()]);
  expect(await entries()).toBe(0);
  for (const { sandboxId } of sandboxes) {
    await until(async () => (await plane.row(sandboxId)).status === 'running', 60_000);
    expect(driver.calls.filter((call) => call === `create ${sandboxId}`)).toHaveLength(1);
  }
}, 180_000);

test('an entry of a relay that died is started by the next relay', async () => {
  const { sandboxId } = await plane.admit();
  // The state after a relay died between taking the entry and starting the workflow.
  await plane.orm.em.fork().execute("update outbox set attempts = 1, not_before = now() + interval '1 hour'");
  expect(await plane.relay.relayOnce()).toBe(0);
  await allDue();
  expect(await plane.relay.relayOnce()).toBe(1);
  await until(async () => (await plane.row(sandboxId)).status === 'running');
});

test('a late start does not start an ended sandbox again', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  await plane.commands.terminate(sandbox, { forget: false });
  await plane.client.workflow.getHandle(sandbox.sandboxId).result();
  const em = plane.orm.em.fork();
  requestStart(em, 'sandbox', sandbox.sandboxId, toLifeStart(sandbox));
  await em.flush();
  expect(await plane.relay.relayOnce()).toBe(1);
  expect(await entries()).toBe(0);
  expect((await plane.row(sandbox.sandboxId)).status).toBe('terminated');
  expect(driver.calls.filter((call) => call === `create ${sandbox.sandboxId}`)).toHaveLength(1);
});

/** Makes all entries due, as time would do. */
const allDue = () => plane.orm.em.fork().execute('update outbox set not_before = now() where dead_at is null');

async function relayDue(): Promise<void> {
  await allDue();
  await plane.relay.relayOnce();
}

test('a signal reaches its workflow, even one that starts later, but not one that has closed', async () => {
  const sandbox = await plane.admit();
  const { sandboxId } = sandbox;
  const em = plane.orm.em.fork();
  requestSignal(em, 'sandbox', sandboxId, 'projectSwitched', { projectId: 'prj-later' });
  await em.execute("update outbox set not_before = now() + interval '1 hour' where workflow_id = ?", [sandboxId]);
  await em.flush();
  await plane.relay.relayOnce();
  const [waiting] = await plane.orm.em.fork().find(OutboxEntry, { workflowId: sandboxId, signal: 'projectSwitched' });
  expect(waiting).toMatchObject({ refusals: 1, deadAt: null, lastError: expect.stringMatching(/not found/i) });

  await plane.commands.start(sandbox, { wait: true });
  await relayDue();
  expect(await entries()).toBe(0);
  const handle = plane.client.workflow.getHandle(sandboxId);
  await until(async () => (await handle.describe()).searchAttributes.ProjectId?.[0] === 'prj-later');

  await plane.commands.terminate(sandbox, { forget: false });
  await handle.result();
  requestSignal(em, 'sandbox', sandboxId, 'projectSwitched', { projectId: 'prj-too-late' });
  await em.flush();
  await relayDue();
  expect(await entries()).toBe(0);
});

const listing = { sortBy: 'created_at', sortOrder: 'asc', limit: 10, offset: 0, after: null } as const;

test('an entry that Temporal refuses ten times is a dead letter until an operator retries it', async () => {
  const em = plane.orm.em.fork();
  em.create(OutboxEntry, { workflowType: 'ofAnotherVersion', workflowId: 'wf-unknown', input: {} });
  await em.flush();
  for (let attempt = 1; attempt <= 9; attempt++) await relayDue();
  expect((await listDeadEntries(plane.orm.em, listing)).entries).toEqual([]);
  await relayDue();
  const [dead, ...others] = (await listDeadEntries(plane.orm.em, listing)).entries;
  expect(others).toEqual([]);
  expect(dead).toMatchObject({ refusals: 10, lastError: 'there is no workflow type ofAnotherVersion' });
  await plane.orm.em.fork().execute('update outbox set not_before = now()');
  expect(await plane.relay.relayOnce()).toBe(0);

  expect(await reviveEntries(plane.orm.em.fork(), dead!.id)).toBe(1);
  expect(await plane.relay.relayOnce()).toBe(1);
  await plane.orm.em.fork().nativeDelete(OutboxEntry, {});
});

test('an outage of Temporal makes no dead letters', async () => {
  const { sandboxId } = await plane.admit();
  const connection = Connection.lazy({ address: '127.0.0.1:1' });
  const logger = pino({ level: 'silent' });
  const cutOff = new OutboxRelay({ orm: plane.orm, client: new Client({ connection }), logger });
  await allDue();
  expect(await cutOff.relayOnce()).toBe(1);
  const [entry] = await plane.orm.em.fork().find(OutboxEntry, { workflowId: sandboxId });
  expect(entry).toMatchObject({ attempts: 1, refusals: 0, deadAt: null, lastError: expect.any(String) });
  await connection.close();
  await relayDue();
  expect(await entries()).toBe(0);
}, 180_000);

test('a running relay starts a sandbox while Temporal does not answer the start of a webhook delivery', async () => {
  const em = plane.orm.em.fork();
  const hanging = Promise.withResolvers<void>();
  const client = {
    workflow: {
      start: async (...[type, options]: Parameters<Client['workflow']['start']>) => {
        if (type === 'webhookDelivery') await hanging.promise;
        else await plane.client.workflow.start(type, options);
      },
    },
  } as unknown as Client;
  await em.execute(
    "insert into outbox (workflow_type, workflow_id, input) values ('webhookDelivery', 'whd-hangs', '{}')",
  );
  const isAttempted = async () => (await em.fork().count(OutboxEntry, { workflowId: 'whd-hangs', attempts: 1 })) === 1;
  const relay = new OutboxRelay({ orm: plane.orm, client, logger: pino({ level: 'silent' }) });
  relay.start();
  try {
    await until(isAttempted);
    const { sandboxId } = await plane.admit();
    await until(async () => (await plane.row(sandboxId)).status === 'running');
    expect(await isAttempted()).toBe(true);
  } finally {
    hanging.resolve();
    await relay.stop();
  }
  expect(await entries()).toBe(0);
});

test('neither a sandbox nor another account waits for the retries of webhooks of an account, however many there are', async () => {
  const em = plane.orm.em.fork();
  await em.execute(
    `insert into outbox (workflow_type, workflow_id, input)
     select 'webhookDelivery', 'whd-' || n, jsonb_build_object('accountId', case when n <= 50 then 'acc-a' else 'acc-b' end)
       from generate_series(1, 51) n`,
  );
  const { sandboxId } = await plane.admit();
  const take = async (lane: OutboxLane) => (await takeDueEntries(em, lane, 10)).map(({ workflowId }) => workflowId);
  expect(await take('others')).toContain(sandboxId);
  const retries = await take('webhooks');
  expect(retries).toHaveLength(10);
  expect(retries).toContain('whd-51');
  await em.execute("delete from outbox where workflow_type = 'webhookDelivery'");
});
