import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ensureSchedule } from '../../../worker/schedules.ts';
import type { MaintenanceReport } from '../../../workflows/upkeep/maintenance.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { farFromMidnight } from '../../support/far-from-midnight.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

/** Upkeep as the schedule starts it, on a real Temporal and real tables. */
let plane: ControlPlane;
beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), relay: false });
}, 120_000);
afterAll(() => plane?.stop());

/** The rounds with this status, newest first. */
async function rounds(status: 'Completed' | 'Running'): Promise<string[]> {
  const found: string[] = [];
  const query = `WorkflowType = 'maintenance' and ExecutionStatus = '${status}'`;
  for await (const each of plane.client.workflow.list({ query })) found.push(each.workflowId);
  return found;
}

test('a control worker starts one round at once and schedules one each hour; a second worker adds nothing', async () => {
  await farFromMidnight();
  const em = plane.orm.em.fork();
  // The database may have been made yesterday.
  for (const [first, last] of [
    ['- 9', '- 9'],
    ['', '+ 2'],
  ]) {
    const today = "(now() at time zone 'UTC')::date";
    await em.execute(`select make_metrics_partitions(${today} ${first}, ${today} ${last})`);
  }
  await em.execute(
    "select make_webhook_partitions((now() at time zone 'UTC')::date - 100, (now() at time zone 'UTC')::date - 100)",
  );
  await em.execute(
    `insert into idempotency_keys (caller, key, request_hash, created_at)
     select 'key-1', 'k' || n, 'h', now() - interval '25 hours' from generate_series(1, 3) n`,
  );
  const ended = await plane.admit();
  await em.execute(
    `update sandboxes set status = 'terminated', holds_compute = false, holds_disk = false,
       ended_at = now() - interval '91 days' where sandbox_id = ?`,
    [ended.sandboxId],
  );
  await em.execute(
    `insert into notifications (id, account_id, user_id, title, message, type, category, created_at)
     select 'ntf-' || n, ?, ?, '', '', '', '', now() - interval '91 days' from generate_series(1, 2) n`,
    [plane.account.accountId, plane.account.userId],
  );
  await em.execute("update events set created_at = now() - interval '91 days'");
  await em.execute(`
    insert into sessions (session_id, user_id, key_id, expires_at)
      select 'ses-' || user_id, user_id, 'first', now() - interval '25 hours' from users;
    insert into account_links (token_hash, purpose, user_id, proves_email, expires_at)
      select 'hash', 'password-reset', user_id, true, now() - interval '1 second' from users;
    insert into known_addresses (user_id, address_hash, last_used_at)
      select user_id, 'hash', now() - interval '91 days' from users;
    insert into sign_in_throttles (throttle_key, failures, next_at, updated_at)
      values ('old', 3, now(), now() - interval '61 minutes'), ('young', 3, now(), now());
  `);
  await Promise.all([ensureSchedule(plane.client, 'maintenance'), ensureSchedule(plane.client, 'maintenance')]);
  await until(async () => (await rounds('Completed')).length > 0, 90_000);
  const workflowId = (await rounds('Completed')).at(-1);
  const handle = plane.client.workflow.getHandle(workflowId!);
  const report: MaintenanceReport = await handle.result();
  expect(report).toEqual({
    partitionsMade: 3,
    partitionsDropped: 3,
    idempotencyKeysPurged: 3,
    // Of the sandbox, and of the subscription that came with the account.
    eventsPurged: 2,
    notificationsPurged: 2,
    endedSandboxesPurged: 1,
    signInsPurged: 4,
    webhookPartitionsMade: expect.any(Number),
    webhookPartitionsDropped: 1,
    webhookDeliveriesPurged: 0,
    usageEventsSummed: 0,
    workflowsReplaced: 0,
  });
  expect(await em.execute('select throttle_key from sign_in_throttles')).toEqual([{ throttle_key: 'young' }]);
  for (const table of ['idempotency_keys', 'events', 'notifications', 'sandboxes', 'sessions', 'account_links']) {
    expect([table, await em.execute(`select * from ${table}`)]).toEqual([table, []]);
  }
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'maintenance', workflowId!);

  const { spec } = await plane.client.schedule.getHandle('maintenance').describe();
  expect(spec.intervals).toEqual([expect.objectContaining({ every: 3_600_000 })]);
  let schedules: string[] = [];
  // The list of schedules lags a little.
  await until(async () => {
    schedules = [];
    for await (const each of plane.client.schedule.list()) schedules.push(each.scheduleId);
    return schedules.length > 0;
  });
  expect(schedules).toEqual(['maintenance']);
}, 180_000);

test('a task that fails is retried and does not stop the others', async () => {
  const em = plane.orm.em.fork();
  await em.execute('alter function drop_metrics_partitions rename to gone');
  await em.execute(
    "insert into idempotency_keys (caller, key, request_hash, created_at) values ('key-1', 'k', 'h', now() - interval '25 hours')",
  );
  const before = await rounds('Completed');
  await plane.client.schedule.getHandle('maintenance').trigger();
  await until(async () => ((await em.execute('select 1 from idempotency_keys')) as unknown[]).length === 0, 60_000);
  // The list of workflows lags a little. The round runs as long as the function is missing.
  await until(async () => (await rounds('Running')).length === 1);
  await em.execute('alter function gone rename to drop_metrics_partitions');
  await until(async () => (await rounds('Completed')).length > before.length, 90_000);
}, 180_000);
