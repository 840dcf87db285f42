import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { paymentPossibleSignal } from '../../workflows/billing/period.ts';
import { hostReportSignal } from '../../workflows/sandboxes/life/messages.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';
import { until } from '../support/until.ts';

/** Continue-as-new, on a Temporal that suggests it after 100 events. */
let plane: ControlPlane;

beforeAll(async () => {
  const env = { PLATFORM_BILLING: 'on' };
  plane = await startControlPlane({
    driver: new MemoryDriver(),
    planName: 'pro',
    relay: false,
    shortHistory: true,
    env,
  });
}, 120_000);
afterAll(() => plane?.stop());

test('a sandbox with a long history continues in a next run of its workflow, without losing a command', async () => {
  const sandbox = await plane.admit();
  const { sandboxId } = sandbox;
  await plane.commands.start(sandbox, { wait: true });
  await plane.commands.pause(sandbox, { wait: true });
  await plane.commands.resume(sandbox, { wait: true });
  const handle = plane.client.workflow.getHandle(sandboxId);
  const firstRun = (await handle.describe()).runId;
  let timeoutSeconds = 300;
  while ((await handle.describe()).runId === firstRun) {
    expect(timeoutSeconds).toBeLessThan(1000);
    const changes = Array.from({ length: 8 }, async () => {
      timeoutSeconds += 1;
      await plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
    });
    for (const result of await Promise.allSettled(changes)) {
      // The server limits the number of concurrent updates. The caller may try again.
      if (result.status === 'rejected') expect(result.reason.code).toBe('too_many_requests');
    }
  }
  await plane.commands.setTimeout(sandbox, { timeoutSeconds: 3000, mustRaise: true });
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'running', timeoutSeconds: 3000 });
  expect((await handle.describe()).searchAttributes.SandboxStatus).toEqual(['running']);
  // The next run knows the number of the current processes, so it drops a report about earlier ones.
  await handle.signal(hostReportSignal, { kind: 'memoryLost', run: 1, at: new Date().toISOString() });
  await plane.commands.pause(sandbox, { wait: true });
  const secondRun = (await handle.describe()).runId;
  await plane.commands.terminate(sandbox, { forget: false });
  await plane.client.workflow.getHandle(sandboxId, secondRun).result();
  expect((await plane.row(sandboxId)).status).toBe('terminated');
  if (process.env.RECORD_HISTORIES !== '1') return;
  await recordHistory(plane.client, 'sandbox-next-run-first', sandboxId, firstRun);
  await recordHistory(plane.client, 'sandbox-next-run-second', sandboxId, secondRun);
}, 180_000);

test('the billing of an account continues in a next run, without losing a period', async () => {
  const { accountId } = plane.account;
  const sql = (text: string) => plane.orm.em.fork().execute(text);
  // Accounts of operators are not charged.
  await sql("update users set role = 'user'");
  const started = await plane.client.workflow.start('billing', startOptions('billing', accountId, { accountId }));
  const firstRun = started.firstExecutionRunId;
  const billing = plane.client.workflow.getHandle(`${accountId}/billing`);
  for (let signals = 0; (await billing.describe()).runId === firstRun; signals += 1) {
    // The workflow reads them when its worker gets to it.
    expect(signals).toBeLessThan(5000);
    await billing.signal(paymentPossibleSignal, { accountId });
  }
  const secondRun = (await billing.describe()).runId;
  await sql(
    `update subscriptions set anchor = p.starts, period_start = p.starts, period_end = p.starts + interval '1 month'
       from (select date_trunc('milliseconds', now() - interval '1 month 14 days') as starts) p`,
  );
  await billing.signal(paymentPossibleSignal, { accountId });
  // There is no payment method.
  await until(async () => (await sql('select 1 from invoices where charge_attempts = 1')).length === 1);
  expect(await sql('select period_end > now() as renewed, status from subscriptions')).toEqual([
    { renewed: true, status: 'active' },
  ]);
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'billing-next-run-first', `${accountId}/billing`, firstRun);
    await recordHistory(plane.client, 'billing-next-run-second', `${accountId}/billing`, secondRun);
  }
  await billing.terminate();
}, 120_000);

test('the loss of a host goes on in next runs, past sandboxes whose rows never change', async () => {
  const { hostId, orm } = plane;
  const sql = (text: string, values: unknown[] = []) => orm.em.fork().execute(text, values);
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  const { sandboxId } = sandbox;
  // No workflow takes their signals. In the order of the ids, they come first.
  await sql(
    `insert into sandboxes select (jsonb_populate_record(s, jsonb_build_object('sandbox_id', 'sbx-0' || number))).*
       from sandboxes s, generate_series(1000, 1249) number where sandbox_id = ?`,
    [sandboxId],
  );
  const watch = await plane.client.workflow.start('host', startOptions('host', hostId, { hostId }));
  const firstRun = watch.firstExecutionRunId;
  const handle = plane.client.workflow.getHandle(hostId);
  await sql('update hosts set lost_at = now() where host_id = ?', [hostId]);
  await until(async () => (await plane.row(sandboxId)).status === 'failed');
  expect((await plane.row(sandboxId)).reason).toBe('host_lost');
  await until(async () => (await handle.describe()).runId !== firstRun);
  const secondRun = (await handle.describe()).runId;
  await sql("delete from sandboxes where sandbox_id like 'sbx-0%'");
  const isWatching = async () => {
    const { raw } = await handle.describe();
    return raw.pendingActivities?.some(({ activityType }) => activityType?.name === 'watchUntilBack') ?? false;
  };
  await until(isWatching, 120_000);
  await sql('update hosts set lost_at = null where host_id = ?', [hostId]);
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'host-loss-first-run', hostId, firstRun);
    await recordHistory(plane.client, 'host-loss-second-run', hostId, secondRun);
  }
  await handle.terminate();
}, 180_000);
