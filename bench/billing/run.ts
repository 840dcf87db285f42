import { fork } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Client, Connection } from '@temporalio/client';
import pLimit from 'p-limit';
import { createAccount } from '../../db/accounts/accounts.ts';
import { loadPlans } from '../../db/billing/plans.ts';
import { setTaxRate, startBilling, startBillingOfAll } from '../../db/billing/subscriptions.ts';
import { newId } from '../../db/core/new-id.ts';
import { createOrm } from '../../db/orm.ts';
import { rollUpUsage } from '../../db/usage/usage-upkeep.ts';
import { period } from '../../domain/billing/periods.ts';
import type { AccountId } from '../../domain/ids.ts';
import { heapFlags } from '../../platform/config/heap-limits.ts';
import { addDefaultCard, platformProcessor } from '../../test/support/added-card.ts';
import { cards, TestProcessor } from '../../test/support/payment-processor.ts';
import { testDatabase, testNamespace } from '../../test/support/stack.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { until } from '../../test/support/until.ts';
import { type GroupUse, platformUse } from '../process-groups.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { trivialWorkflowsPerSecond } from '../webhooks/trivial-workflows.ts';
import { usedMonth } from './used-month.ts';

/**
 * The simultaneous month's end of many accounts: periods begin, invoices are issued and charged at a processor. For
 * comparison it measures Temporal and the processor alone. `BILLING_ACCOUNTS=30 npm run bench -- billing`
 */
const accountCount = Number(process.env.BILLING_ACCOUNTS ?? 1000);
const aloneCount = Math.min(5, Math.ceil(accountCount / 10));
const floorCount = Math.min(200, accountCount);
const goalSeconds = 600;
const root = path.resolve(import.meta.dirname, '../..');
/** Invoices are issued an hour after the end, when late usage has arrived. */
const periodEndMs = Date.now() - 61 * 60_000;
const periodStartMs = period(periodEndMs, 'month', -1).startMs;
const terms = [
  { planName: 'pro', taxRate: '0', taxPercent: 0n },
  { planName: 'team', taxRate: '0.19', taxPercent: 19n },
  { planName: 'enterprise', taxRate: '0.07', taxPercent: 7n },
];

interface BilledAccount {
  accountId: AccountId;
  /** Cents. */
  expected: { subtotal: bigint; tax: bigint };
  events: number;
}

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'billing-bench-'));
const database = await testDatabase();
const temporal = await testNamespace();
const orm = await createOrm(database.url, 8, null);
const plans = loadPlans();
const processor = await TestProcessor.start();
const sql = <Answer>(text: string, values: unknown[] = []) => orm.em.fork().execute(text, values) as Promise<Answer[]>;
let worker: Awaited<ReturnType<typeof startWorker>> | null = null;
try {
  const filledAtMs = performance.now();
  const accounts = await fill();
  const filledSeconds = (performance.now() - filledAtMs) / 1000;
  console.log(`${accounts.length} accounts are made`);
  worker = await startWorker();

  const [first, rest] = [accounts.slice(0, aloneCount), accounts.slice(aloneCount)];
  await inTurn(first.length, async (index) => {
    await orm.em.fork().transactional(async (tx) => startBilling(tx, first[index]!.accountId));
    await allPaid(index + 1);
    return 0;
  });
  const before = platformUse(process.pid, dataDir);
  const startedMs = Date.now();
  await startBillingOfAll(orm.em);
  await allPaid(accounts.length);
  const seconds = (Date.now() - startedMs) / 1000;
  const after = platformUse(process.pid, dataDir);
  const load = os
    .loadavg()
    .map((each) => each.toFixed(1))
    .join(', ');

  const paidAt = await paymentTimes();
  const workflowStarts = await startTimes(accounts.length);
  const fromStart = (of: BilledAccount[]) =>
    summarize(of.map(({ accountId }) => paidAt.get(accountId)! - workflowStarts.get(accountId)!));
  const [alone, together] = [fromStart(first), fromStart(rest)];
  const asked = summarize(rest.map(({ accountId }) => paidAt.get(accountId)! - startedMs));
  const faults = await findFaults(accounts);
  const bareCharges = await measureBareCharges();
  const trivial = await trivialWorkflowsPerSecond(temporal.address, floorCount);
  const invoicesPerSecond = rest.length / seconds;
  const events = accounts.reduce((sum, each) => sum + each.events, 0);
  const perSecond = (value: number) => `${value.toFixed(1)}/s`;
  printTable(
    `Month's end of ${accounts.length} accounts with ${events} usage events (made in ${filledSeconds.toFixed(0)} s)`,
    [
      {
        measure: `${rest.length} invoices at once, until all are paid`,
        value: seconds.toFixed(1),
        unit: 's',
        goal: holdAgainst(seconds, goalSeconds, 's'),
      },
      { measure: 'invoices', value: perSecond(invoicesPerSecond), unit: '' },
      { measure: 'an invoice alone, start of its workflow to paid', value: alone, unit: 'ms' },
      { measure: 'at once, start of the workflow to paid', value: together, unit: 'ms' },
      { measure: 'at once, month’s end to paid', value: asked, unit: 'ms' },
      { measure: 'invoices right', value: `${accounts.length - faults.size} of ${accounts.length}`, unit: '' },
      {
        measure: 'workflows with one activity, same server',
        value: perSecond(trivial),
        unit: '',
        goal: `invoices: ${(invoicesPerSecond / trivial).toFixed(2)} ×`,
      },
      {
        measure: 'bare charges, 50 at once',
        value: perSecond(bareCharges.perSecond),
        unit: '',
        goal: `invoices: ${(invoicesPerSecond / bareCharges.perSecond).toFixed(2)} ×; the processor uses ${(bareCharges.processorShare * 100).toFixed(0)} % of a core`,
      },
      ...processorTimes(before, after, seconds, rest.length),
      { measure: 'load of the machine in the last 1, 5 and 15 minutes', value: load, unit: '' },
    ],
  );
  if (faults.size > 0)
    throw new Error(
      [...faults]
        .slice(0, 20)
        .map(([id, fault]) => `${id}: ${fault}`)
        .join('\n'),
    );
} finally {
  if (worker) {
    worker.kill('SIGTERM');
    await once(worker, 'exit');
  }
  await processor.stop();
  await orm.close();
  await database.drop();
  await stack.stop();
  fs.rmSync(dataDir, { recursive: true });
}

/** Accounts with an ended period, a paid plan, a card, and a month of usage in the sums. */
async function fill(): Promise<BilledAccount[]> {
  await sql("select make_usage_partitions((now() - interval '62 days')::date, now()::date)");
  const limit = pLimit(8);
  const accounts = await Promise.all(
    Array.from({ length: accountCount }, (_, index) => limit(() => makeAccount(index))),
  );
  await rollUpUsage(orm.em);
  await sql('analyze');
  return accounts;
}

async function makeAccount(index: number): Promise<BilledAccount> {
  const { planName, taxRate, taxPercent } = terms[index % terms.length]!;
  const person = {
    email: `bench-${index}@example.com`,
    displayName: `Bench ${index}`,
    planName,
    role: 'user' as const,
  };
  const { accountId, userId, projectId } = await orm.em.fork().transactional(async (tx) => {
    const made = await createAccount(tx, person, plans);
    await setTaxRate(tx, made.accountId, taxRate);
    return made;
  });
  const [start, end] = [periodStartMs, periodEndMs].map((ms) => new Date(ms).toISOString());
  await sql('update subscriptions set anchor = ?, period_start = ?, period_end = ? where account_id = ?', [
    ...[end, start, end, accountId],
  ]);
  const fee = BigInt(plans.get(planName).priceAmount.replace('.', ''));
  const { hours, ...expected } = usedMonth(index, { startMs: periodStartMs, endMs: periodEndMs, fee, taxPercent });
  const rows = hours.map(({ type, startMs, amount, price }) => ({ type, ms: startMs, amount: String(amount), price }));
  await sql(
    `insert into usage_events (resource_id, usage_type, period_start, period_end, account_id, user_id, project_id, amount, unit_price)
     select ?, type, to_timestamp(ms / 1000), to_timestamp(ms / 1000) + interval '1 hour', ?, ?, ?, amount, price
       from jsonb_to_recordset(?::jsonb) hours(type text, ms bigint, amount bigint, price numeric)`,
    [newId('sandbox'), accountId, userId, projectId, JSON.stringify(rows)],
  );
  await addDefaultCard({ orm, processor }, accountId, cards.good);
  return { accountId, expected, events: hours.length };
}

async function startWorker() {
  const script = 'worker/control.ts';
  const child = fork(path.join(root, script), {
    execArgv: heapFlags(script, {}),
    env: {
      PATH: process.env.PATH,
      PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
      PLATFORM_DATA_DIR: dataDir,
      PLATFORM_CACHE_DIR: dataDir,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
      ...processor.env,
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const lines = createInterface({ input: child.stdout! });
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the worker has ended with ${code}`)));
    lines.on('line', (line) => {
      if (/"level":(40|50|60)/.test(line)) console.error(line);
      if (line.includes('"msg":"ready"')) resolve();
    });
  });
  return child;
}

async function allPaid(count: number): Promise<void> {
  const paid = async () => {
    const [row] = await sql<{ n: number }>("select count(*)::int as n from invoices where status = 'paid'");
    return row!.n;
  };
  let saidAtMs = Date.now();
  const arePaid = async () => {
    const number = await paid();
    if (Date.now() - saidAtMs > 30_000) {
      console.log(`${number} of ${count} invoices are paid`);
      saidAtMs = Date.now();
    }
    return number >= count;
  };
  await until(arePaid, 2 * goalSeconds * 1000, 200);
}

/** When each account's invoice was paid, in Unix milliseconds. */
async function paymentTimes(): Promise<Map<string, number>> {
  const rows = await sql<{ account_id: string; paid_at: string }>(
    "select account_id, paid_at from invoices where status = 'paid'",
  );
  return new Map(rows.map((row) => [row.account_id, new Date(row.paid_at).getTime()]));
}

/** When the server had each account's workflow, in Unix milliseconds. */
async function startTimes(count: number): Promise<Map<string, number>> {
  const connection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection, namespace: temporal.namespace });
  const starts = new Map<string, number>();
  await until(async () => {
    for await (const { workflowId, startTime } of client.workflow.list({ query: "WorkflowType = 'billing'" })) {
      starts.set(workflowId.split('/')[0]!, startTime.getTime());
    }
    return starts.size >= count;
  });
  await connection.close();
  return starts;
}

interface InvoiceRow {
  account_id: string;
  invoice_id: string;
  status: string;
  subtotal: string;
  tax_amount: string;
  total_amount: string;
  lines: string;
  receivable: string;
  is_next: boolean;
}

/** The faults by account: its invoice, the processor's own records, the ledger, the next period. */
async function findFaults(accounts: readonly BilledAccount[]): Promise<Map<string, string>> {
  const rows = await sql<InvoiceRow>(
    `select i.*, s.period_start = i.period_end as is_next,
            (select sum(amount)::text from invoice_lines where invoice_id = i.invoice_id) as lines,
            (select sum(amount)::text from ledger_entries where account_id = i.account_id and ledger_account = 'receivable')
              as receivable
       from invoices i join subscriptions s using (account_id)`,
  );
  const [ledger] = await sql<{ sum: string }>('select sum(amount)::text as sum from ledger_entries');
  if (Number(ledger!.sum) !== 0) throw new Error(`The ledger's entries add up to ${ledger!.sum}`);
  const { data: charges } = await processor.get('/v1/payment_intents?limit=100000');
  const charged = new Map<string, bigint[]>();
  for (const { status, amount, metadata } of charges) {
    if (status !== 'succeeded') continue;
    charged.set(metadata.invoice_id, [...(charged.get(metadata.invoice_id) ?? []), BigInt(amount)]);
  }
  const faults = new Map<string, string>();
  for (const { accountId, expected } of accounts) {
    const mine = rows.filter(({ account_id }) => account_id === accountId);
    const [invoice] = mine;
    const total = expected.subtotal + expected.tax;
    const is = [
      ...[mine.length, invoice?.status, cents(invoice?.subtotal), cents(invoice?.lines), cents(invoice?.tax_amount)],
      ...[cents(invoice?.total_amount), charged.get(invoice?.invoice_id ?? '')?.join(), cents(invoice?.receivable)],
      invoice?.is_next,
    ].join(' ');
    const { subtotal, tax } = expected;
    const wanted = [1, 'paid', subtotal, subtotal, tax, total, total, 0, true].join(' ');
    if (is !== wanted) faults.set(accountId, `is ${is}, and not ${wanted}`);
  }
  return faults;
}

/** The cents of a decimal. Null: it is not a decimal, or has a fraction of a cent. */
function cents(amount: string | undefined): bigint | null {
  const [, whole, decimals = '00'] = /^(-?\d+)(?:\.(\d\d)0*)?$/.exec(amount ?? '') ?? [];
  return whole === undefined ? null : BigInt(`${whole}${decimals}`);
}

/** Only charges: as many requests to the processor as an invoice makes. */
async function measureBareCharges(): Promise<{ perSecond: number; processorShare: number }> {
  const platform = platformProcessor(processor);
  const methods = await sql<{ account_id: string; customer_id: string; payment_method_id: string }>(
    'select account_id, customer_id, payment_method_id from payment_customers join payment_methods using (account_id) limit ?',
    [floorCount],
  );
  const limit = pLimit(50);
  const cpuMs = () => platformUse(process.pid, dataDir).get('payment processor')!.cpuMs;
  const cpuBeforeMs = cpuMs();
  const ms = await timed(() =>
    Promise.all(
      methods.map((row) =>
        limit(async () => {
          const { payment_method_id: paymentMethodId, customer_id: customerId } = row;
          const { paymentIntentId } = await platform.prepareCharge({
            ...{ key: `bare ${row.account_id}`, customerId, paymentMethodId, amount: '10.00', currency: 'USD' },
            metadata: {},
          });
          await platform.confirmCharge({ key: `confirm ${paymentIntentId}`, paymentIntentId, paymentMethodId });
        }),
      ),
    ),
  );
  return { perSecond: (methods.length * 1000) / ms, processorShare: (cpuMs() - cpuBeforeMs) / ms };
}

/** The processor time of each kind of process. */
function processorTimes(
  before: Map<string, GroupUse>,
  after: Map<string, GroupUse>,
  seconds: number,
  invoices: number,
): Row[] {
  const names: Record<string, string> = {
    'payment processor': 'localstripe',
    supervisor: 'this bench, which has the front of localstripe',
  };
  const total = ({ cpuMs, endedCpuMs }: GroupUse) => cpuMs + endedCpuMs;
  return [...after].flatMap(([kind, use]) => {
    const usedMs = total(use) - (before.has(kind) ? total(before.get(kind)!) : 0);
    const share = usedMs / 10 / seconds;
    const row = {
      measure: `processor time of ${names[kind] ?? kind}`,
      value: `${(usedMs / 1000).toFixed(1)} s`,
      unit: '',
      goal: `${share.toFixed(0)} % of a core; ${(usedMs / invoices).toFixed(1)} ms an invoice`,
    };
    return usedMs === 0 ? [] : [row];
  });
}
