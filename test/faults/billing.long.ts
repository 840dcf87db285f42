import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, test } from '@jest/globals';
import { createAccount } from '../../db/accounts/accounts.ts';
import { startBilling } from '../../db/billing/subscriptions.ts';
import type { AccountId } from '../../domain/ids.ts';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { addDefaultCard } from '../support/added-card.ts';
import { cards, TestProcessor } from '../support/payment-processor.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { type HoldPoint, Holds } from './hold-points.ts';
import { withPlatform } from './with-platform.ts';

/**
 * Upgrades and invoices of many accounts, each of which is held at a different point: before or after the processor
 * executes a request, or in a statement. Then a process is killed (SIGKILL). The processor's own records decide.
 */
const processor = await TestProcessor.start();
afterAll(() => processor.stop());
let platform: FaultyPlatform;
withPlatform(
  (started) => {
    platform = started;
  },
  // Each waiting statement holds a connection.
  { ...processor.env, DATABASE_POOL_SIZE: '20' },
);

const victims = ['worker', 'api', 'postgres'] as const;
type Kind = 'upgrade' | 'invoice';

const moments = ['arrived', 'done'] as const;
const ofRequests: HoldPoint[] = moments.flatMap((moment) => [
  { name: `the charge is prepared, ${moment}`, request: { call: 'prepare', moment } },
  { name: `the charge is confirmed, ${moment}`, request: { call: 'confirm', moment } },
  { name: `the charge is read, ${moment}`, request: { call: 'read', moment }, isConfirmationLost: true },
]);
const confirming = { call: 'confirm', moment: 'arrived' } as const;
const ofCharges: HoldPoint[] = [
  { name: 'its id is stored', statement: { lock: 'newCharge', takenAt: { call: 'prepare', moment: 'done' } } },
  { name: 'its outcome is recorded', statement: { lock: 'charge', takenAt: confirming } },
  { name: 'the invoice is marked as paid', statement: { lock: 'invoice', takenAt: confirming } },
];
const both = (each: HoldPoint): [Kind, HoldPoint][] => [
  ['upgrade', each],
  ['invoice', each],
];
/** The groups are small: a request to the processor is given up after 20 s, and a lock after 10 s. */
const groups: Record<string, [Kind, HoldPoint][]> = {
  'requests that move the money': ofRequests.filter((point) => !point.isConfirmationLost).flatMap(both),
  'requests after a lost reply': ofRequests.filter((point) => point.isConfirmationLost).flatMap(both),
  'statements of charges': ofCharges.flatMap(both),
  'statements of periods and plans': [
    // First: the others wait for it, which must take less time than a lock may last.
    ['invoice', { name: 'the invoice is issued', statement: { lock: 'account' } }],
    ['invoice', { name: 'the period ends', statement: { lock: 'account' } }],
    ['invoice', { name: 'the next period begins', statement: { lock: 'subscription' } }],
    ['upgrade', { name: 'the plan is asked for', statement: { lock: 'account' } }],
    ['upgrade', { name: 'the plan is switched', statement: { lock: 'subscription', takenAt: confirming } }],
  ],
};

interface Subject {
  kind: Kind;
  point: HoldPoint;
  accountId: AccountId;
  customerId: string;
  api: PlatformClient;
}

/** The time since the end of the account's billing period. An invoice is issued an hour after the end. */
const ended = (point: HoldPoint) => (isSlow(point) ? '59 minutes 48 seconds' : '14 days');
/** Its point is reached only after seconds. */
const isSlow = ({ name }: HoldPoint) => name === 'the invoice is issued';

async function addSubject([kind, point]: [Kind, HoldPoint]): Promise<Subject> {
  const email = `owner-${Math.random().toString(36).slice(2)}@example.com`;
  const planName = kind === 'upgrade' ? 'hobby' : 'pro';
  const { accountId, apiKey } = await platform.orm.em
    .fork()
    .transactional((tx) => createAccount(tx, { email, displayName: 'Owner', planName, role: 'user' }));
  const card = await addDefaultCard({ orm: platform.orm, processor }, accountId, cards.good);
  const { customer } = await processor.get(`/v1/payment_methods/${card}`);
  return {
    kind,
    point,
    accountId,
    customerId: customer,
    api: new PlatformClient(platform.settings.PLATFORM_URL!, apiKey),
  };
}

/** Requests the plan. The request ends with its process, but the change continues. @returns whether it was answered */
async function askForPlan({ api }: Subject): Promise<boolean> {
  const path = '/v1/user-management/account/subscription';
  const reply = await api.request('POST', path, { plan_name: 'pro' }).catch(() => null);
  return reply !== null && (reply.status === 200 || reply.status === 409);
}

async function begin(holds: Holds, subject: Subject): Promise<void> {
  const { kind, point, accountId } = subject;
  holds.add(accountId, point);
  const em = platform.orm.em.fork();
  if (kind === 'invoice') {
    await em.execute(
      `update subscriptions s set anchor = p.starts, period_start = p.starts, period_end = p.ends
         from (select now() - ?::interval - interval '1 month' as starts, now() - ?::interval as ends) p where account_id = ?`,
      [ended(point), ended(point), accountId],
    );
  }
  const isIssue = isSlow(point);
  if (point.statement && !point.statement.takenAt && !isIssue) await holds.holdStatement(accountId);
  if (kind === 'upgrade') {
    void askForPlan(subject);
    return;
  }
  await em.transactional(async (tx) => startBilling(tx, accountId));
  if (!isIssue) return;
  await until(async () => {
    const drafts = await platform.rows(
      "select 1 from invoices where account_id = ? and status = 'draft' and issue_at > now()",
      [accountId],
    );
    return drafts.length > 0;
  });
  await holds.holdStatement(accountId);
}

/** Has charges with an unknown outcome checked now. By default this happens after minutes. */
async function hurry(subjects: readonly Subject[]): Promise<void> {
  for (const { accountId } of subjects.filter(({ kind }) => kind === 'invoice')) {
    const waiting = await platform.rows(
      `update invoices set next_charge_at = now() where invoice_id in (
         select invoice_id from invoices where account_id = ? and kind = 'period' and status = 'open' and next_charge_at > now()
            for update skip locked) returning 1`,
      [accountId],
    );
    if (waiting.length === 0) continue;
    await platform.temporal.workflow.getHandle(`${accountId}/billing`).signal('paymentPossible', { accountId });
  }
}

interface State {
  status: string;
  total: string;
  charged: string | null;
  plan: string;
  changes: string[];
  renewed: boolean;
  events: number;
}

async function readState({ accountId }: Subject): Promise<State | null> {
  const [state] = await platform.rows<State>(
    `select v.status, v.total_amount::text as total, i.payment_intent_id as charged, s.plan ->> 'planName' as plan,
            array(select status from plan_changes where account_id = s.account_id) as changes, s.period_end > now() as renewed,
            (select count(*)::int from events where account_id = s.account_id and type = 'payment.succeeded') as events
       from subscriptions s join invoices v using (account_id) left join payment_intents i using (invoice_id)
      where s.account_id = ? and v.status <> 'draft'`,
    [accountId],
  );
  return state ?? null;
}

/** Returns the missing part, or null when the final state is reached. */
async function isMissing(subject: Subject): Promise<string | null> {
  const state = await readState(subject);
  if (state?.status !== 'paid') return `the invoice is ${state?.status ?? 'not there'}`;
  if (subject.kind === 'upgrade' && state.plan !== 'pro') return `the plan is ${state.plan}`;
  const workflowId = `${subject.accountId}/${subject.kind === 'upgrade' ? 'plan-change' : 'billing'}`;
  const { status } = await platform.temporal.workflow.getHandle(workflowId).describe();
  return status.name === (subject.kind === 'upgrade' ? 'COMPLETED' : 'RUNNING')
    ? null
    : `${workflowId} is ${status.name}`;
}

/** Waits until all have reached their final state. */
async function untilOver(subjects: readonly Subject[]): Promise<void> {
  const open = new Map<Subject, string>();
  const endsAt = Date.now() + 180_000;
  do {
    open.clear();
    for (const subject of subjects) {
      // Postgres or Temporal may not be available yet.
      const missing = await hurry([subject])
        .then(() => isMissing(subject))
        .catch((error: Error) => error.message);
      if (missing !== null) open.set(subject, missing);
    }
    await delay(250);
  } while (open.size > 0 && Date.now() < endsAt);
  expect([...open].map(([{ kind, point }, missing]) => `${kind}, ${point.name}: ${missing}`)).toEqual([]);
}

async function expectChargedOnce(holds: Holds, subject: Subject): Promise<void> {
  const { kind, accountId, customerId } = subject;
  const state = (await readState(subject))!;
  const isUpgrade = kind === 'upgrade';
  expect(state).toMatchObject({ plan: 'pro', changes: isUpgrade ? ['done'] : [], renewed: true, events: 1 });
  const units = Math.round(Number(state.total) * 100);
  expect(units).toBeGreaterThan(4000);
  const charges = await processor.charges(customerId);
  expect(charges.map((charge) => [charge.payment_intent, charge.amount])).toEqual([[state.charged, units]]);
  expect(holds.listCharges(accountId)).toEqual([state.charged]);
  const sums = await platform.rows<{ ledger_account: string; sum: number }>(
    'select ledger_account, sum(amount)::float8 as sum from ledger_entries where account_id = ? group by 1 order by 1',
    [accountId],
  );
  const amount = units / 100;
  expect(sums.map(({ ledger_account: name, sum }) => [name, sum])).toEqual([
    ['cash', amount],
    ['receivable', 0],
    ['revenue', -amount],
  ]);
  const { body } = await subject.api.request<{ subscription: { plan: unknown } }>(
    'GET',
    '/v1/user-management/account/subscription',
  );
  expect(JSON.stringify(body.data)).toContain('"pro"');
}

/**
 * Waits until all are held at the same moment. Work that is held for longer than the platform's own limits is repeated,
 * so on a slow machine fewer are held: one less is enough for each ten seconds, but never less than half.
 */
async function untilHeld(holds: Holds, subjects: readonly Subject[]): Promise<Map<AccountId, string>> {
  const since = Date.now();
  let held = new Map<AccountId, string>();
  await until(async () => {
    await hurry(subjects);
    held = await holds.held();
    const enough = subjects.length - Math.floor((Date.now() - since) / 10_000);
    return held.size >= Math.max(enough, subjects.length / 2);
  }, 120_000);
  return held;
}

test.each(victims.flatMap((victim) => Object.keys(groups).map((group) => [victim, group] as const)))(
  'each upgrade and invoice is charged once when %s is killed while they are held: %s',
  async (victim, group) => {
    await platform.untilReady();
    const subjects = await Promise.all(groups[group]!.map(addSubject));
    const holds = new Holds(processor, platform);
    let held = new Map<AccountId, string>();
    try {
      const [first, ...others] = subjects;
      await begin(holds, first!);
      if (isSlow(first!.point)) await until(async () => (await holds.held()).size === 1, 60_000);
      await Promise.all(others.map((subject) => begin(holds, subject)));
      held = await untilHeld(holds, subjects);
      await platform.kill(victim);
    } finally {
      await holds.release();
    }
    const since = Date.now();
    await platform.up(victim);
    await platform.untilReady();
    // Repeats unanswered requests, as a customer does.
    const asking = subjects.filter(({ kind }) => kind === 'upgrade');
    await Promise.all(asking.map((subject) => until(() => askForPlan(subject), 60_000)));
    await untilOver(subjects);
    const seconds = ((Date.now() - since) / 1000).toFixed(0);
    for (const subject of subjects) await expectChargedOnce(holds, subject);
    expect(await platform.rows('select sum(amount) = 0 as balanced from ledger_entries')).toEqual([{ balanced: true }]);
    const counts = `${victim} killed while ${held.size} of ${subjects.length} stood still in ${group}`;
    const where = subjects.map(
      ({ kind, point, accountId }) => `  ${kind}, ${point.name}: ${held.get(accountId) ?? 'not held'}`,
    );
    process.stdout.write(`${counts}; each charged once, over after ${seconds} s\n${where.join('\n')}\n`);
  },
  400_000,
);
