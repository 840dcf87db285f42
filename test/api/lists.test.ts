import type { EntityManager } from '@mikro-orm/postgresql';
import fc from 'fast-check';
import { newId } from '../../db/core/new-id.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import { ImportJob } from '../../db/templates/import-job.entity.ts';
import type { ProjectId } from '../../domain/ids.ts';
import { addUsage } from '../support/added-usage.ts';
import { addBilling } from '../support/billing-rows.ts';
import { cloneRows } from '../support/cloned-rows.ts';
import { addPayments } from '../support/payment-rows.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let projectId: ProjectId;
let sandboxId: string;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: processorSettings() });
  for (let i = 1; i <= 3; i++) {
    const project = await api.send(api.root, 'POST', '/v1/projects', { name: `project-${i}` });
    projectId ??= project.body.data.project_id;
    const sandbox = await api.send(api.root, 'POST', '/v1/sandboxes', { name: `sandbox-${i}`, project_id: projectId });
    sandboxId ??= sandbox.body.data.sandbox_id;
    // Ended, so that its usage stops.
    if (i < 3) await api.send(api.root, 'POST', `/v1/sandboxes/${sandbox.body.data.sandbox_id}/terminate`);
    await api.send(api.root, 'POST', '/v1/api-keys', { name: `key-${i}` });
    await addImport();
    await api.send(api.root, 'POST', '/v1/webhooks', { url: `https://example.com/${i}`, event_types: ['template.*'] });
    await addUserOfQuotas();
    await addPayments(api.orm.em, api.root.accountId);
    await addBilling(api.orm.em, api.root.accountId);
    await api.send(api.root, 'POST', `/v1/accounts/${api.root.accountId}/credits`, { action: 'grant', amount: i });
  }
  for (const workflowId of ['usr-a', 'usr-b', 'usr-c']) await addDeadLetter(workflowId);
  for (let i = 0; i < 3; i++) await api.addAccount();
  await addUsage(api.orm.em, api.root.accountId, '9');
  await api.send(api.root, 'POST', '/v1/budgets', { budget_amount: 9 });
});
afterAll(() => api.stop());

async function addImport(): Promise<void> {
  const { accountId, userId: ownerUserId } = api.root;
  const em = api.orm.em.fork();
  em.create(ImportJob, {
    ...{ jobId: newId('importJob'), templateId: await api.addTemplate({}), accountId, ownerUserId, status: 'running' },
    ...{ externalImageUrl: 'a/b', registryImageUrl: 'c/d', registryPath: 'd', maxRetries: 3 },
  });
  await em.flush();
}

async function addDeadLetter(workflowId: string): Promise<void> {
  const em = api.orm.em.fork();
  em.create(OutboxEntry, { workflowType: 'passwordReset', workflowId, input: {}, deadAt: new Date() });
  await em.flush();
}

/** Adds a user with a quota and a request for one, and so a notification of the root user. */
async function addUserOfQuotas(): Promise<void> {
  const user = await api.addUser(api.root);
  const quota = { cpu_seconds_monthly: 1, template_storage_gb: 1 };
  await api.send(user, 'POST', '/v1/usage/quota-requests', { ...quota, reason: 'more' });
  await api.send(api.root, 'POST', '/v1/user-management/quota-allocations', { user_id: user.userId, ...quota });
}

/** An item without the fields that change with time. */
function still({ uptime, remaining_seconds, updated_at, duration, estimated_cost, ...item }: Json): Json {
  return item;
}

/** Every route with pages in the OpenAPI document, with the field of its items. */
function lists(): { path: string; url: string; items: string; sorts: string[]; defaultLimit: number }[] {
  return Object.entries<Json>(api.client.document.paths).flatMap(([path, { get }]) => {
    const schema = get?.responses[200]?.content?.['application/json']?.schema;
    const fields = Object.keys(schema?.properties?.data?.properties ?? {});
    if (!fields.includes('pagination')) return [];
    const items = fields.find((name) => schema.properties.data.properties[name].type === 'array')!;
    const sortBy = get.parameters.find((each: Json) => each.name === 'sort_by');
    const limit = get.parameters.find((each: Json) => each.name === 'limit');
    const defaultLimit = Number(/default (\d+)/.exec(limit.description)?.[1]);
    return [
      {
        path,
        url: path.replace('{project_id}', projectId).replace('{sandbox_id}', sandboxId),
        items,
        sorts: sortBy?.schema.enum ?? [],
        defaultLimit,
      },
    ];
  });
}

test('every list has the same pagination, counts and order', async () => {
  const known = lists();
  expect(known.length).toBeGreaterThanOrEqual(5);
  for (const { url, items, defaultLimit } of known) {
    const read = async (query: string) => {
      const { status, body } = await api.send(api.root, 'GET', `${url}?${query}`);
      expect([url, query, status]).toEqual([url, query, 200]);
      return { rows: (body.data[items] as Json[]).map(still), pagination: body.data.pagination };
    };
    const { rows: all, pagination: whole } = await read('limit=1000');
    expect([url, all.length >= 3]).toEqual([url, true]);
    expect([url, whole]).toEqual([
      url,
      { page: 1, limit: 100, total: all.length, total_pages: 1, offset: 0, next_cursor: null },
    ]);
    const times = all.map((row) => Date.parse(row.created_at));
    expect([url, times]).toEqual([url, [...times].sort((a, b) => b - a)]);

    const { pagination: unasked } = await read('');
    expect([url, unasked.page, unasked.limit]).toEqual([url, 1, defaultLimit]);
    const nextCursor = all.length > 2 ? expect.any(String) : null;
    const second = {
      page: 2,
      limit: 1,
      total: all.length,
      total_pages: all.length,
      offset: 1,
      next_cursor: nextCursor,
    };
    for (const query of ['page=2&limit=1', 'page=2&page_size=1', 'offset=1&limit=1', 'skip=1&limit=1&page=3']) {
      const { rows, pagination } = await read(query);
      expect([url, query, rows, pagination]).toEqual([url, query, [all[1]], second]);
    }
    const beyond = await read('offset=5000');
    expect([url, beyond.rows, beyond.pagination.total]).toEqual([url, [], all.length]);
    const unset = await read('page=0&limit=0&offset=0');
    expect([url, unset.pagination.page, unset.pagination.limit > 1]).toEqual([url, 1, true]);
    const afterUnset = await read('offset=0&skip=1&limit=1');
    expect([url, afterUnset.pagination]).toEqual([url, second]);
    for (const query of ['page=-1', 'limit=-1', 'limit=x', 'offset=-1']) {
      const { status, body } = await api.send(api.root, 'GET', `${url}?${query}`);
      expect([url, query, status, body.code]).toEqual([url, query, 400, 'invalid_pagination']);
    }
  }
});

test('every sortable list accepts each of its columns in both directions', async () => {
  const sortable = lists().filter(({ sorts }) => sorts.length > 0);
  expect(sortable.length).toBeGreaterThanOrEqual(2);
  for (const { url, items, sorts } of sortable) {
    for (const column of sorts) {
      const [up, down] = await Promise.all(
        ['asc', 'desc'].map(async (order) => {
          const { body } = await api.send(api.root, 'GET', `${url}?sort_by=${column}&sort_order=${order}`);
          return body.data[items]
            .map((row: Json) => row[column])
            .filter((value: unknown) => value !== null) as string[];
        }),
      );
      expect([url, column, up]).toEqual([url, column, [...up!].sort()]);
      expect([url, column, down]).toEqual([url, column, [...up!].reverse()]);
    }
  }
});

test('a list with more than 10,000 rows says so, and all of them can be read', async () => {
  const caller = await api.addAccount('enterprise');
  const made = await api.send(caller, 'POST', '/v1/sandboxes');
  const sandboxId = made.body.data.sandbox_id;
  await api.send(caller, 'POST', `/v1/sandboxes/${sandboxId}/terminate`);
  const read = async (query: string) => {
    const { body } = await api.send(caller, 'GET', `/v1/sandboxes?${query}`);
    const { next_cursor, ...pagination } = body.data.pagination;
    return [pagination, body.data.sandboxes.length];
  };
  const add = (copies: number) =>
    cloneRows(api.orm.em, 'sandboxes', 'sandbox_id', copies, {}, `sandbox_id = '${sandboxId}'`);
  await add(9_999);
  const full = { page: 1, limit: 100, total: 10_000, total_pages: 100, offset: 0 };
  expect(await read('limit=100')).toEqual([full, 100]);
  await add(130);
  const capped = { ...full, total_is_capped: true };
  expect(await read('limit=100')).toEqual([capped, 100]);
  expect(await read('limit=100&page=102')).toEqual([{ ...capped, page: 102, offset: 10_100 }, 30]);
  // Filters are counted in the same way.
  expect(await read('limit=100&status=terminated')).toEqual([capped, 100]);
  expect((await read('status=running'))[0]).not.toHaveProperty('total_is_capped');
  const found = await readAll(caller, '/v1/sandboxes', 'sandboxes', 'limit=100');
  expect(new Set(found.map((row) => row.sandbox_id)).size).toBe(10_130);
  expect(found.length).toBe(10_130);
});

/** All items of a list by its cursors. @param between is called with the last item of each page */
async function readAll(
  caller: Caller,
  url: string,
  items: string,
  query: string,
  between: (last: Json) => Promise<void> = async () => {},
): Promise<Json[]> {
  const found: Json[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { status, body } = await api.send(caller, 'GET', `${url}?${query}&cursor=${cursor}`);
    expect([url, query, status]).toEqual([url, query, 200]);
    expect([url, body.data.pagination.offset]).toEqual([url, found.length]);
    found.push(...body.data[items]);
    cursor = body.data.pagination.next_cursor;
    if (cursor !== null) await between(found.at(-1));
  }
  return found;
}

test('every sortable list can be read by cursors in each of its orders', async () => {
  for (const { url, items, sorts } of lists()) {
    for (const column of sorts) {
      for (const order of ['asc', 'desc']) {
        const sorted = `sort_by=${column}&sort_order=${order}`;
        const { body } = await api.send(api.root, 'GET', `${url}?${sorted}&limit=100`);
        const found = await readAll(api.root, url, items, `${sorted}&limit=2`);
        expect([url, sorted, found.map(still)]).toEqual([url, sorted, body.data[items].map(still)]);
      }
    }
  }
});

test('a page before the cursor does not matter, and a page after it may have another size', async () => {
  const read = async (query: string) => (await api.send(api.root, 'GET', `/v1/projects?${query}`)).body.data;
  const { projects: all } = await read('limit=100');
  const first = await read('limit=1');
  const cursor = first.pagination.next_cursor;
  const rest = await read(`limit=3&page=7&offset=100&cursor=${cursor}`);
  expect(rest.projects).toEqual(all.slice(1, 4));
  expect(rest.pagination).toMatchObject({ page: 1, limit: 3, offset: 1, total: all.length });
});

test('a text that is no cursor of the list is refused', async () => {
  const url = '/v1/sandboxes';
  const other = await api.addUser(api.root);
  const cursorOf = async (caller: Caller, address: string): Promise<string> => {
    const { body } = await api.send(caller, 'GET', address);
    return body.data.pagination.next_cursor;
  };
  const refused = async (cursor: string, query = '', caller = api.root) => {
    const { status, body } = await api.send(
      caller,
      'GET',
      `${url}?limit=1${query}&cursor=${encodeURIComponent(cursor)}`,
    );
    expect([cursor, query, status, body.code]).toEqual([cursor, query, 400, 'invalid_pagination']);
    expect(body.details).toMatchObject([{ path: 'cursor' }]);
  };
  const cursor = await cursorOf(api.root, `${url}?limit=1`);
  expect((await api.send(api.root, 'GET', `${url}?cursor=${cursor}`)).status).toBe(200);

  await refused(cursor, '&status=terminated');
  await refused(cursor, '&sort_by=name');
  await refused(cursor, '&sort_order=asc');
  await refused(cursor, `&account_id=${api.root.accountId}&search=a`);
  await refused(cursor, '', other);
  await refused(cursor, '', await api.addAccount('enterprise'));
  await refused(await cursorOf(api.root, '/v1/projects?limit=1'));
  await refused(await cursorOf(api.root, `/v1/projects/${projectId}/sandboxes?limit=1`));
  await refused('a'.repeat(5_000));

  const bytes = Buffer.from(cursor, 'base64url');
  const altered = fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 })).map(([index, change]) => {
    const copy = Buffer.from(bytes);
    copy[index]! ^= change;
    return copy.toString('base64url');
  });
  const cut = fc.nat(bytes.length - 1).map((length) => bytes.subarray(0, length).toString('base64url'));
  const extended = fc.string({ minLength: 1, maxLength: 9, unit: 'binary' }).map((more) => cursor + more);
  const any = fc.oneof(altered, cut, extended, fc.string({ unit: 'binary' }), fc.base64String());
  // An empty text and `null` count as not given.
  const given = any.filter((text) => text !== '' && text !== 'null' && text.isWellFormed() && !text.includes('\0'));
  await fc.assert(
    fc.asyncProperty(given, (text) => refused(text)),
    { numRuns: 300 },
  );
});

/** A list's table, the column and the field of its items' ids, and what its copies need to be different. */
interface Listed {
  table: string;
  id: string;
  field?: string;
  /** The column that the list is sorted by. */
  time?: string;
  copies?: Record<string, string>;
}

const random = 'md5(random()::text)';
const sandboxes = { table: 'sandboxes', id: 'sandbox_id' };
const quotaRequests = { table: 'quota_requests', id: 'request_id', copies: { status: `'denied'` } };
const tables: Record<string, Listed> = {
  // Before the list whose test removes the sandbox.
  '/v1/sandboxes/{sandbox_id}/events': {
    ...{ table: 'events', id: 'event_id', copies: { sequence: '(random() * 1e9)::int' } },
  },
  '/v1/sandboxes': sandboxes,
  '/v1/projects/{project_id}/sandboxes': { ...sandboxes, field: 'id' },
  '/v1/usage/sessions': { ...sandboxes, field: 'resource_id', time: 'started_at' },
  '/v1/templates': { table: 'templates', id: 'template_id', copies: { name: random } },
  '/v1/import-jobs': { table: 'import_jobs', id: 'job_id', copies: { template_id: random } },
  '/v1/projects': { table: 'projects', id: 'project_id', copies: { name: random, is_default: 'false' } },
  '/v1/api-keys': { table: 'api_keys', id: 'key_id', copies: { name: random, secret_hash: random } },
  '/v1/notifications': { table: 'notifications', id: 'id' },
  '/v1/user-management/users': {
    ...{ table: 'users', id: 'user_id', copies: { username: random, email: `${random} || '@example.com'` } },
  },
  '/v1/audit-events': { table: 'audit_events', id: 'event_id' },
  '/v1/user-management/quota-allocations': {
    ...{ table: 'quota_allocations', id: 'allocation_id', copies: { user_id: random } },
  },
  '/v1/user-management/quota-requests': quotaRequests,
  '/v1/usage/quota-requests': quotaRequests,
  '/v1/admin/accounts': { table: 'accounts', id: 'account_id', copies: { email: `${random} || '@example.com'` } },
  '/v1/admin/dead-letters': { table: 'outbox', id: 'id', copies: { id: `nextval('outbox_id_seq')` } },
  '/v1/usage/events': { table: 'usage_events', id: 'resource_id', time: 'period_end' },
  '/v1/webhooks': { table: 'webhook_endpoints', id: 'endpoint_id' },
  '/v1/user-management/account/subscription/history': {
    ...{ table: 'subscription_changes', id: 'change_id', time: 'changed_at' },
  },
  '/v1/billing/balance/changes': { table: 'ledger_transactions', id: 'transaction_id' },
  '/v1/billing/invoices': {
    ...{ table: 'invoices', id: 'invoice_id', copies: { period_start: `period_start - random() * interval '9 days'` } },
  },
  '/v1/budgets/messages': { table: 'budget_messages', id: 'id' },
  '/v1/payment/intents': { table: 'payment_intents', id: 'payment_intent_id' },
};

/** Copies a row. @param at SQL for the time of the copy, by which the list is sorted */
async function copy(tx: EntityManager, listed: Listed, of: string, count: number, at: string): Promise<void> {
  const { table, id, time = 'created_at', copies } = listed;
  const values: Record<string, string> = { ...copies, [time]: at };
  if (table === 'usage_events') values.period_start = `${at} - interval '1 millisecond'`;
  await cloneRows(tx, table, id, count, values, `${id} = '${of}'`);
  if (table !== 'ledger_transactions') return;
  await tx.execute(
    `insert into ledger_entries (transaction_id, ledger_account, account_id, currency, amount)
     select t.transaction_id, 'balance', t.account_id, t.currency, 1 from ledger_transactions t
      where not exists (select from ledger_entries e where e.transaction_id = t.transaction_id)`,
  );
}

/** Changes rows without the triggers that keep some of them unchanged, and without foreign keys. */
async function changeRows(change: (tx: EntityManager) => Promise<void>): Promise<void> {
  await api.orm.em.fork().transactional(async (tx) => {
    await tx.execute('set local session_replication_role = replica');
    await change(tx);
  });
}

test('the table of this test has every list', () => {
  expect(Object.keys(tables).sort()).toEqual(
    lists()
      .map(({ path }) => path)
      .sort(),
  );
});

test.each(Object.entries(tables))(
  '%s has each item once and none left out, while items come and go between its pages',
  async (listPath, listed) => {
    const { url, items } = lists().find(({ path }) => path === listPath)!;
    const field = listed.field ?? listed.id;
    const read = async () => (await api.send(api.root, 'GET', `${url}?limit=100`)).body.data[items] as Json[];
    const [newest] = await read();
    const { table, id, time = 'created_at' } = listed;
    // Groups of equal times, some of which end within a page.
    await changeRows((tx) => copy(tx, listed, newest[field], 8, `${time} + (n / 3 - 3) * interval '1 second'`));
    const named = (rows: Json[]) => rows.map((row) => [row[field], row.usage_type]);
    const before = named(await read());
    const top = `(select max(${time}) + interval '1 millisecond' from ${table})`;
    const found = await readAll(api.root, url, items, 'limit=2', async (last) => {
      await changeRows(async (tx) => {
        await copy(tx, listed, last[field], 1, top);
        // A sandbox has usage events of several types.
        const same = table === 'usage_events' ? `and usage_type = '${last.usage_type}'` : '';
        await tx.execute(`delete from ${table} where ${id} = ? ${same}`, [last[field]]);
      });
    });
    expect(before.length).toBeGreaterThanOrEqual(9);
    expect(named(found)).toEqual(before);
    // The changes are changes of the list.
    expect(named(await read())).not.toEqual(before);
  },
);
