import { once } from 'node:events';
import http from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createApp } from '../../api/app.ts';
import { newId } from '../../db/core/new-id.ts';
import { addUsage } from '../support/added-usage.ts';
import { addBilling } from '../support/billing-rows.ts';
import { cloneRows } from '../support/cloned-rows.ts';
import { longestTurnMs } from '../support/longest-turn.ts';
import { addPayments } from '../support/payment-rows.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let url: string;
/** Path parameters. */
const ids: Record<string, string> = {};
const pages = 100;

beforeAll(async () => {
  const env = { PLATFORM_RATE_LIMIT_PER_KEY: '0', PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' };
  api = await startApi({ planName: 'enterprise', env: { ...processorSettings(), ...env } });
  url = await api.app.listen({ host: '127.0.0.1', port: 0 });
  await fill();
}, 300_000);
afterAll(() => api.stop());

/** Characters of one to three bytes, and some that JSON escapes. */
const text = (length: number) => '\u00e9"\u20ac<a> '.repeat(length).slice(0, length);
const post = async (path: string, body: object): Promise<Json> => {
  const { status, body: reply } = await api.send(api.root, 'POST', path, body);
  expect([path, status < 300, reply]).toEqual([path, true, expect.anything()]);
  return reply.data;
};

/** Adds a page of the largest allowed objects of each kind. */
async function fill(): Promise<void> {
  const { em } = api.orm;
  const { accountId, userId } = api.root;
  const sql = (statement: string, ...values: unknown[]) => em.fork().execute(statement, values);
  const clone = (table: string, key: string, more?: Record<string, string>) =>
    cloneRows(em, table, key, pages - 1, more);

  ids.project_id = (await post('/v1/projects', { name: text(60).trim(), description: text(250) })).project_id;
  const envVars = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`VARIABLE_${i}`, text(330)]));
  const metadata = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`key-${i}`, text(100)]));
  const sandbox = { project_id: ids.project_id, description: text(250), env_vars: envVars, metadata };
  ids.sandbox_id = (await post('/v1/sandboxes', sandbox)).sandbox_id;
  await clone('sandboxes', 'sandbox_id');
  await clone('projects', 'project_id', { name: "'p' || n || random()", is_default: 'false' });
  ids.key_id = (await post('/v1/api-keys', { name: text(60).trim() })).key_id;
  await clone('api_keys', 'key_id', { name: "'k' || n || random()", secret_hash: 'md5(n || random()::text)' });
  const webhook = { url: `https://example.com/${'x'.repeat(1000)}`, event_types: ['*'] };
  ids.endpoint_id = (await post('/v1/webhooks', webhook)).endpoint_id;
  await clone('webhook_endpoints', 'endpoint_id');
  ids.delivery_id = 'whd-a';
  await sql(
    `insert into webhook_deliveries (delivery_id, endpoint_id, account_id, event_id, event_type, event_at, data, max_attempts, attempts, error_message)
     values ('whd-a', ?, ?, 'evt-a', 'sandbox.started', now(), ?, 10, ?, ?)`,
    ...[ids.endpoint_id, accountId, JSON.stringify({ metadata }), '[]', text(500)],
  );
  await clone('webhook_deliveries', 'delivery_id');

  ids.template_id = (await post('/v1/templates', { name: 'large', description: text(250) })).template_id;
  await api.send(api.root, 'PUT', `/v1/templates/${ids.template_id}/document`, { template_document: text(28_000) });
  await sql(`update templates set template_document = repeat('x', 65535) where template_id = ?`, ids.template_id);
  await clone('templates', 'template_id', { name: "'t' || n || random()" });
  ids.job_id = newId('importJob');
  await sql(
    `insert into import_jobs (job_id, template_id, account_id, owner_user_id, status, external_image_url, registry_image_url, registry_path,
       max_retries, error_message, skopeo_logs, last_log_message, created_at, updated_at)
     values (?, ?, ?, ?, 'failed', 'a/b', 'c/d', 'd', 3, ?, repeat('x', 65536), ?, now(), now())`,
    ...[ids.job_id, ids.template_id, accountId, userId, text(1000), text(1000)],
  );
  await clone('import_jobs', 'job_id');

  await api.addUser(api.root);
  ids.user_id = userId;
  await clone('users', 'user_id', {
    ...{ email: "'e' || n || random() || '@example.com'", username: "'u' || n || random()", is_root_user: 'false' },
    ...{ oauth_provider: 'null', oauth_provider_id: 'null' },
  });
  await sql(
    `insert into notifications (id, account_id, user_id, title, message, type, category)
     select 'ntf-' || n, ?, ?, ?, ?, 'info', 'system' from generate_series(1, ?::int) n`,
    ...[accountId, userId, text(200), text(2000), pages],
  );
  await sql(
    `insert into audit_events (event_id, account_id, address, request_id, action, before, after)
     select 'aud-' || n, ?, '127.0.0.1', 'req-a', 'sandbox.update', ?, ? from generate_series(1, ?::int) n`,
    ...[accountId, JSON.stringify({ metadata }), JSON.stringify({ metadata }), pages],
  );

  await sql(
    `insert into usage_days (account_id, bucket, usage_type, user_id, project_id, unit_price, amount, events)
     select ?, current_date - d, t, ?, 'prj-' || p, 0.01, 1, 1
       from generate_series(1, 365) d, generate_series(1, 20) p, unnest(array['cpu_seconds', 'memory_mb_seconds']) t`,
    ...[accountId, userId],
  );
  await addUsage(em, accountId, '9');
  for (let i = 0; i < 10; i++) ids.invoice_id = await addBilling(em, accountId);
  await sql(
    `insert into invoice_lines (invoice_id, position, type, description, quantity, unit_price, amount)
     select invoice_id, n, 'usage', ?, 1, 0.01, 0.01 from invoices, generate_series(1, case invoice_id when ? then 1000 else 50 end) n`,
    ...[text(60), ids.invoice_id],
  );
  await sql(`update invoices set status = 'open', subtotal = 10, total_amount = 10, issued_at = now()`);
  await sql(`update invoices set status = 'paid', paid_at = now()`);
  for (let i = 0; i < 20; i++) ids.id = await addPayments(em, accountId);
  await post(`/v1/accounts/${accountId}/credits`, { action: 'grant', amount: 5 });
}

/** Beginnings of frequent words, so each finds many sections. */
const worstSearch = '/guide/search?q=sandb+contex+workfl+operati+pagina+regist+creden+telem+accou+proce+templa+reques';

/** The address of each route that reads, with its largest page. */
function addresses(): string[] {
  const documented = Object.entries<Json>(api.client.document.paths).flatMap(([path, { get }]) => {
    // A stream of events has no end.
    if (!get || get.operationId === 'streamEvents') return [];
    const known = new Set((get.parameters ?? []).map(({ name }: Json) => name));
    const query = new URLSearchParams({
      ...(known.has('limit') && { limit: String(pages) }),
      ...(known.has('start_date') && { start_date: new Date(Date.now() - 364 * 86_400_000).toISOString() }),
    });
    return [`${path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? 'none')}?${query}`];
  });
  const receipts = documented.filter((each) => each.includes('/receipt?')).map((each) => `${each}&format=html`);
  return [
    ...documented,
    ...receipts,
    `/e2b/v2/sandboxes?limit=${pages}`,
    '/e2b/templates',
    '/openapi.json',
    '/agent-openapi.json',
    '/docs',
    '/docs/sandboxes',
    '/guide',
    '/guide/operations',
    worstSearch,
    '/',
  ];
}

/** The longest turn of a copy of the OpenAPI document. A measure of this machine: about 20 ms on a usual one. */
function copyingMs(): Promise<number> {
  const sample = JSON.stringify(api.client.document);
  return least(async () => {
    JSON.stringify(JSON.parse(sample));
    await nextTurn();
  });
}

test('no route that reads keeps the event loop for long, with its largest reply', async () => {
  const copied = await copyingMs();
  const slow: string[] = [];
  const large: string[] = [];
  for (const path of addresses()) {
    let shown = '';
    const turn = await least(async () => {
      shown = await read(path);
    }, 2 * copied);
    if (turn > 2 * copied) slow.push(`${(turn / copied).toFixed(2)} ${shown}`);
    if (Number(shown.split(' ')[1]) > 1_000_000) large.push(path.split('?')[0]!);
  }
  expect(slow).toEqual([]);
  expect(large).toEqual(
    expect.arrayContaining(['/v1/sandboxes', '/e2b/v2/sandboxes', '/v1/audit-events', '/openapi.json']),
  );
}, 300_000);

test('no route keeps the event loop for long with the largest body that it takes', async () => {
  const copied = await copyingMs();
  const slow: string[] = [];
  for (const [path, routes] of Object.entries<Json>(api.client.document.paths)) {
    for (const [method, { requestBody, 'x-max-body-bytes': bytes }] of Object.entries<Json>(routes)) {
      if (!requestBody || !(bytes > 0)) continue;
      const address = path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? 'none');
      const fields = largestFields(bytes);
      const bodies = [JSON.stringify(fields), `[${`${'['.repeat(30)}${']'.repeat(30)},`.repeat(60)}0]`];
      for (const body of bodies) {
        let status = 0;
        const turn = await least(async () => {
          status = await send(method, address, body);
        }, 2 * copied);
        if (turn > 2 * copied) slow.push(`${(turn / copied).toFixed(2)} ${status} ${method} ${path} ${body.length}`);
      }
    }
  }
  expect(slow).toEqual([]);
}, 300_000);

/** An object of nearly as many bytes, keys and values as a body may have. Escapes make the parser copy each text. */
function largestFields(bytes: number): Json {
  const count = Math.min(1400, Math.floor(bytes / 100));
  const value = '"\n'.repeat(Math.floor((bytes / count - 20) / 4));
  return Object.fromEntries(Array.from({ length: count }, (_, number) => [`k${number}`, value]));
}

test('five clients that download receipts in a loop keep the event loop as short as others, and wait for their turns', async () => {
  const copied = await copyingMs();
  const path = `/v1/billing/invoices/${ids.invoice_id}/receipt`;
  const shown: string[] = [];
  const turn = await longestTurnMs(async () => {
    const download = async () => {
      for (let number = 0; number < 3; number += 1) shown.push((await read(path)).split(' ')[0]!);
    };
    await Promise.all(Array.from({ length: 5 }, download));
  });
  expect([...new Set(shown)].sort()).toEqual(['200', '429']);
  expect(turn / copied).toBeLessThan(3);
}, 300_000);

test('the first request for the OpenAPI document does not make it', async () => {
  const copied = await copyingMs();
  const app = createApp(api.dependencies);
  try {
    const address = await app.listen({ host: '127.0.0.1', port: 0 });
    const turn = await longestTurnMs(async () => {
      expect((await fetch(`${address}/openapi.json`)).status).toBe(200);
    });
    expect(turn / copied).toBeLessThan(10);
  } finally {
    await app.close();
  }
}, 60_000);

/** Sends a body. @returns the status of the reply */
async function send(method: string, path: string, body: string): Promise<number> {
  const headers = { 'x-api-key': api.root.key, 'content-type': 'application/json', 'content-length': body.length };
  const sent = http.request(`${url}${path}`, { method: method.toUpperCase(), headers });
  sent.end(body);
  const [reply]: [http.IncomingMessage] = (await once(sent, 'response')) as [http.IncomingMessage];
  for await (const _ of reply);
  return reply.statusCode!;
}

/** Reads a reply and keeps nothing of it. @returns its status, its length and the path */
async function read(path: string): Promise<string> {
  const sent = http.get(`${url}${path}`, { headers: { 'x-api-key': api.root.key } });
  const [reply]: [http.IncomingMessage] = (await once(sent, 'response')) as [http.IncomingMessage];
  let length = 0;
  for await (const chunk of reply) length += chunk.length;
  return `${reply.statusCode} ${length} ${path}`;
}

/**
 * The least of four measurements: others have the first compilation of code, or a collection of garbage.
 * @param enough less than this needs no further measurement
 */
async function least(work: () => Promise<void>, enough = 0): Promise<number> {
  let turn = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 4 && turn > enough; i++) turn = Math.min(turn, await longestTurnMs(work));
  return turn;
}
