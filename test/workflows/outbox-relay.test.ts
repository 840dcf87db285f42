import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { OutboxEntry } from '../../db/entities/outbox-entry.ts';
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
}, 90_000);

test('an entry that a dying relay had taken is started by the next one', async () => {
  const { sandboxId } = await plane.admit();
  // Taken as a relay takes it, which then dies before the start.
  await plane.orm.em.fork().execute("update outbox set attempts = 1, not_before = now() + interval '300 milliseconds'");
  expect(await plane.relay.relayOnce()).toBe(0);
  await until(async () => (await plane.relay.relayOnce()) === 1);
  await until(async () => (await plane.row(sandboxId)).status === 'running');
});

test('a late start does not wake a life that is over', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  await plane.commands.terminate(sandbox, { forget: false });
  await plane.client.workflow.getHandle(sandbox.sandboxId).result();
  const em = plane.orm.em.fork();
  em.create(OutboxEntry, {
    workflowType: 'sandbox',
    workflowId: sandbox.sandboxId,
    input: { sandboxId: sandbox.sandboxId },
  });
  await em.flush();
  expect(await plane.relay.relayOnce()).toBe(1);
  expect(await entries()).toBe(0);
  expect((await plane.row(sandbox.sandboxId)).status).toBe('terminated');
  expect(driver.calls.filter((call) => call === `create ${sandbox.sandboxId}`)).toHaveLength(1);
});
