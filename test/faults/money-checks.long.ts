import { afterAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { createAccount } from '../../db/accounts/accounts.ts';
import type { AccountId } from '../../domain/ids.ts';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { checkBudgetSignal } from '../../workflows/billing/budget.ts';
import { addDefaultCard } from '../support/added-card.ts';
import { addUsage } from '../support/added-usage.ts';
import { cards, TestProcessor } from '../support/payment-processor.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { withPlatform } from './with-platform.ts';

/**
 * Checks of budgets and the nightly comparison are held, and a process is killed (SIGKILL). Each threshold must be
 * reported once, and a comparison must find exactly the differences.
 */
const processor = await TestProcessor.start();
afterAll(() => processor.stop());
let platform: FaultyPlatform;
withPlatform(
  (started) => {
    platform = started;
  },
  { ...processor.env, DATABASE_POOL_SIZE: '20' },
);

const victims = ['worker', 'api', 'postgres'] as const;
const budgets = '/v1/budgets';

/** A transaction that blocks statements of others. */
class Lock {
  readonly #client: pg.Client;
  readonly #pid: number;

  private constructor(client: pg.Client) {
    this.#client = client;
    this.#pid = (client as unknown as { processID: number }).processID;
  }

  static async take(sql: string, values: unknown[] = []): Promise<Lock> {
    const client = new pg.Client({ connectionString: platform.settings.DATABASE_URL });
    // A killed Postgres ends the connection.
    client.on('error', () => {});
    await client.connect();
    await client.query('begin');
    await client.query(sql, values);
    return new Lock(client);
  }

  /** The statement that waits for it, or null. */
  async waiting(): Promise<string | null> {
    const [row] = await platform.rows<{ query: string }>(
      'select query from pg_stat_activity where ? = any(pg_blocking_pids(pid)) limit 1',
      [this.#pid],
    );
    return row?.query.replaceAll(/\s+/g, ' ').slice(0, 60) ?? null;
  }

  async release(): Promise<void> {
    await this.#client.end().catch(() => {});
  }
}

/** Waits until all are held at the same moment. @returns where */
async function untilWaiting(locks: readonly Lock[]): Promise<string[]> {
  let statements: (string | null)[] = [];
  await until(async () => {
    statements = await Promise.all(locks.map((lock) => lock.waiting()));
    return statements.every((each) => each !== null);
  }, 60_000);
  return statements as string[];
}

async function addAccount(planName: string): Promise<{ accountId: AccountId; api: PlatformClient }> {
  const email = `owner-${Math.random().toString(36).slice(2)}@example.com`;
  const { accountId, apiKey } = await platform.orm.em
    .fork()
    .transactional((tx) => createAccount(tx, { email, displayName: 'Owner', planName, role: 'user' }));
  return { accountId, api: new PlatformClient(platform.settings.PLATFORM_URL!, apiKey) };
}

/** The points at which a check is held, and its cause. A notification needs the row of its user. */
const checks = [
  { name: 'a check begins', by: 'signal', lock: 'select 1 from budgets where account_id = $1 for update' },
  { name: 'a check writes', by: 'signal', lock: 'select 1 from users where account_id = $1 for update' },
  { name: 'the check of an edit begins', by: 'edit', lock: 'select 1 from budgets where account_id = $1 for update' },
  { name: 'the check of an edit writes', by: 'edit', lock: 'select 1 from users where account_id = $1 for update' },
] as const;

test.each(victims)(
  'a budget reports each threshold once and restricts when %s is killed during its checks',
  async (victim) => {
    await platform.untilReady();
    const subjects = await Promise.all(
      checks.map(async (check) => {
        const account = await addAccount('pro');
        const { accountId, api } = account;
        const wanted = { budget_amount: check.by === 'edit' ? 1000 : 10, limit_type: 'hard' };
        expect((await api.request('POST', budgets, wanted)).status).toBe(201);
        const workflow = platform.temporal.workflow.getHandle(`${accountId}/budget`);
        // Its first check has nothing to report.
        const checked = 'select 1 from budgets where account_id = ? and checked_at > created_at';
        await until(async () => (await platform.rows(checked, [accountId])).length === 1);
        await addUsage(platform.orm.em, accountId, '20');
        const edit = async () => {
          const reply = await api.request('PUT', budgets, { budget_amount: 10 }).catch(() => null);
          return reply?.status === 200;
        };
        return { ...account, ...check, workflow, edit };
      }),
    );
    const locks = await Promise.all(subjects.map(({ lock, accountId }) => Lock.take(lock, [accountId])));
    let held: string[] = [];
    try {
      for (const { by, workflow, edit } of subjects) {
        if (by === 'edit') void edit();
        else await workflow.signal(checkBudgetSignal, { because: 'sandbox' });
      }
      held = await untilWaiting(locks);
      await platform.kill(victim);
    } finally {
      for (const lock of locks) await lock.release();
    }
    await platform.up(victim);
    await platform.untilReady();
    // Repeats unanswered requests, as a customer does.
    for (const { by, edit } of subjects) if (by === 'edit') await until(edit, 60_000);
    for (const { name, accountId, api, workflow } of subjects) {
      const read = async () => (await api.request<{ is_restricted: boolean } | null>('GET', budgets)).body.data;
      await until(async () => (await read().catch(() => null))?.is_restricted === true, 60_000);
      // A further check reports nothing more.
      await workflow.signal(checkBudgetSignal, { because: 'sandbox' });
      const checkedAt = () =>
        platform.rows<{ at: string }>('select checked_at::text as at from budgets where account_id = ?', [accountId]);
      const [before] = await checkedAt();
      await until(async () => (await checkedAt())[0]!.at !== before!.at, 60_000);
      const [counts] = await platform.rows(
        `select array(select threshold_percent from budget_messages where account_id = s.account_id order by 1) as messages,
              array(select type from notifications where account_id = s.account_id order by 1) as notifications,
              array(select type from events where account_id = s.account_id and type like 'budget.%' order by 1) as events
         from subscriptions s where account_id = ?`,
        [accountId],
      );
      expect([name, counts]).toEqual([
        name,
        {
          messages: [50, 80, 100],
          notifications: ['budget_restricted', ...Array(3).fill('budget_threshold')],
          events: ['budget.restricted', ...Array(3).fill('budget.threshold_crossed')],
        },
      ]);
      expect((await workflow.describe()).status.name).toBe('RUNNING');
      const refused = await api.request('POST', '/v1/sandboxes', {});
      expect([refused.status, (refused.body as unknown as { code: string }).code]).toEqual([403, 'budget_restricted']);
    }
    const where = subjects.map(({ name }, index) => `  ${name}: ${held[index]}`);
    process.stdout.write(
      `${victim} killed while ${held.length} of ${checks.length} stood still; each threshold reported once\n${where.join('\n')}\n`,
    );
  },
  300_000,
);

/**
 * The points at which a comparison is held. Where a killed worker is noticed only after ten minutes, only others are
 * killed.
 */
const comparisons: { name: string; victims: readonly (typeof victims)[number][]; table?: string }[] = [
  { name: 'the ledger is compared', victims: ['postgres'], table: 'reconciliation_differences' },
  { name: 'charges are compared', victims: ['worker', 'postgres'], table: 'reconciled_charges' },
  { name: 'the processor lists its charges', victims: ['worker', 'postgres'] },
];

test('a comparison finds the differences, once, when worker or postgres is killed during it', async () => {
  await platform.untilReady();
  const owners = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const owner = await addAccount('hobby');
      await addDefaultCard({ orm: platform.orm, processor }, owner.accountId, cards.good);
      const path = '/v1/user-management/account/subscription';
      expect((await owner.api.request('POST', path, { plan_name: 'pro' })).status).toBe(200);
      return owner;
    }),
  );
  // Charges of the last hours are left to the next night.
  processor.olderSeconds = 4 * 3600;
  processor.longestPage = 1;
  const set = (sql: string, values: unknown[] = []) => platform.orm.em.fork().execute(sql, values);
  await set("update payment_intents set created_at = created_at - interval '4 hours'");
  const start = () => platform.temporal.workflow.start('reconciliation', startOptions('reconciliation', '', undefined));
  const readDifferences = (runId: string) =>
    platform.rows(
      `select d.kind, d.account_id from reconciliations r left join reconciliation_differences d using (reconciliation_id)
        where reconciliation_id = ? and ended_at is not null order by 1`,
      [`rec-${runId}`],
    );
  const whole = await start();
  expect(await whole.result()).toEqual({});
  expect(await readDifferences(whole.firstExecutionRunId)).toEqual([{ kind: null, account_id: null }]);
  const { accountId } = owners[1]!;
  await set('update payment_intents set amount = amount + 1 where account_id = ?', [accountId]);

  const lines: string[] = [];
  for (const { name, victims: killed, table } of comparisons) {
    for (const victim of killed) {
      await platform.untilReady();
      const held = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      const lock = table ? await Lock.take(`lock table ${table} in share mode`) : null;
      processor.atRequest = async ({ when, name: call }) => {
        if (table || when !== 'done' || call !== 'GET /v1/payment_intents') return null;
        held.resolve();
        await released.promise;
        return null;
      };
      const run = await start();
      try {
        if (lock) lines.push(`${victim}, ${name}: ${(await untilWaiting([lock]))[0]}`);
        else await held.promise.then(() => lines.push(`${victim}, ${name}: list done`));
        await platform.kill(victim);
      } finally {
        processor.atRequest = async () => null;
        released.resolve();
        await lock?.release();
      }
      await platform.up(victim);
      await platform.untilReady();
      await run.result();
      expect([victim, name, await readDifferences(run.firstExecutionRunId)]).toEqual([
        ...[victim, name],
        ['charge_differs', 'charge_not_booked'].map((kind) => ({ kind, account_id: accountId })),
      ]);
    }
  }
  process.stdout.write(`killed in comparisons, each found the same two differences:\n  ${lines.join('\n  ')}\n`);
}, 600_000);
