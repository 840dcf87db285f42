import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import type { DeliveryResult, HeldDelivery } from '../../../db/webhooks/held-delivery.ts';
import { WebhookEndpoint } from '../../../db/webhooks/webhook-endpoint.entity.ts';
import { recordAndClaim, recordResults } from '../../../db/webhooks/webhook-results.ts';
import type { AccountId, WebhookEndpointId } from '../../../domain/ids.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
let accountId: AccountId;
beforeAll(async () => {
  database = await testDatabase();
  // One connection, whose plans the functions keep.
  orm = await createOrm(database.url, 1);
  const email = 'root@example.com';
  ({ accountId } = (await bootstrap(orm, { email, planName: 'pro', baseImage: 'builtin:base' }))!);
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

async function subscribe(eventType: string): Promise<WebhookEndpointId> {
  const em = orm.em.fork();
  const endpointId = newId('webhookEndpoint');
  em.create(WebhookEndpoint, {
    ...{
      endpointId,
      accountId,
      userId: null,
      url: 'https://example.com/',
      eventTypes: [eventType],
      publicKey: 'whpk_',
    },
  });
  await em.flush();
  return endpointId;
}

async function happen(type: string, count: number): Promise<void> {
  await orm.em.fork().execute(
    `insert into events (event_id, account_id, object_id, sequence, type, data, created_at)
     select 'evt-' || gen_random_uuid(), ?, ?, n, ?, '{}', now() from generate_series(1, ?::int) n`,
    [accountId, newId('template'), type, count],
  );
}

const wanted = (limit: number, holder = 'relay-1') => ({
  ...{ holder, limit, perEndpoint: 64, perAccount: 128 },
  freeSlots: { endpoints: new Map(), accounts: new Map() },
});

function attempted(held: HeldDelivery, error: string | null): DeliveryResult {
  const httpStatus = error ? 500 : 200;
  const outcome = {
    startedAt: new Date().toISOString(),
    durationMs: 5,
    httpStatus,
    error,
    reply: '',
    retryAfterMs: null,
  };
  return {
    held,
    kind: 'attempted',
    outcome,
    verdict: error ? { status: 'retrying', waitMs: 5000 } : { status: 'delivered' },
  };
}

test('results of one write count in their order; a late write of a former holder counts and changes nothing', async () => {
  const endpointId = await subscribe('template.uploaded');
  await happen('template.uploaded', 5);
  const held = await recordAndClaim(orm.em, [], wanted(64));
  const errors = ['no', 'no', null, 'no'];
  const results = errors.map((error, index) => attempted(held[index]!, error));
  const next = await recordAndClaim(orm.em, results, wanted(64, 'relay-2'));
  expect(next).toEqual([]);
  const late = held.map((each) => attempted({ ...each, holder: 'relay-0' }, null));
  await recordResults(orm.em, [...late, ...results]);
  const em = orm.em.fork();
  expect(await em.findOneOrFail(WebhookEndpoint, { endpointId })).toMatchObject({
    ...{ totalDeliveries: 4, successfulDeliveries: 1, failedDeliveries: 0, consecutiveFailures: 1 },
    failingSince: new Date((results[3] as { outcome: { startedAt: string } }).outcome.startedAt),
  });
  const rows = await em.execute('select status, attempt_number from webhook_deliveries order by status');
  expect(rows).toEqual([
    { status: 'delivered', attempt_number: 1 },
    { status: 'delivering', attempt_number: 0 },
    ...Array.from({ length: 3 }, () => ({ status: 'retrying', attempt_number: 1 })),
  ]);
  const starts = await em.execute("select workflow_id from outbox where workflow_type = 'webhookDelivery'");
  expect(starts).toHaveLength(3);
});

test('a relay that began with few deliveries never reads all of them', async () => {
  await subscribe('template.deleted');
  let held: HeldDelivery[] = [];
  const relay = async () => {
    held = await recordAndClaim(
      orm.em,
      held.map((each) => attempted(each, null)),
      wanted(20),
    );
  };
  // Postgres keeps a plan after some calls.
  for (let call = 0; call < 10; call += 1) await relay();
  await happen('template.deleted', 3000);
  const readAlone = async () => {
    const [row] = (await orm.em.fork().execute(
      `select pg_stat_force_next_flush(), (select sum(seq_tup_read)::int from pg_stat_user_tables
         where relname like 'webhook_deliveries%') as rows`,
    )) as { rows: number }[];
    return row!.rows;
  };
  await readAlone();
  const before = await readAlone();
  for (let call = 0; call < 10; call += 1) await relay();
  expect(held).toHaveLength(20);
  await readAlone();
  expect(await readAlone()).toBe(before);
});
