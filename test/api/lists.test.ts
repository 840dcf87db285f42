import { newId } from '../../db/core/new-id.ts';
import { ImportJob } from '../../db/templates/import-job.entity.ts';
import type { ProjectId } from '../../domain/ids.ts';
import { addUsage } from '../support/added-usage.ts';
import { addBilling } from '../support/billing-rows.ts';
import { cloneRows } from '../support/cloned-rows.ts';
import { addPayments } from '../support/payment-rows.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let projectId: ProjectId;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: processorSettings() });
  for (let i = 1; i <= 3; i++) {
    const project = await api.send(api.root, 'POST', '/v1/projects', { name: `project-${i}` });
    projectId ??= project.body.data.project_id;
    const sandbox = await api.send(api.root, 'POST', '/v1/sandboxes', { name: `sandbox-${i}`, project_id: projectId });
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
function lists(): { url: string; items: string; sorts: string[]; defaultLimit: number }[] {
  return Object.entries<Json>(api.client.document.paths).flatMap(([path, { get }]) => {
    const schema = get?.responses[200]?.content?.['application/json']?.schema;
    const fields = Object.keys(schema?.properties?.data?.properties ?? {});
    if (!fields.includes('pagination')) return [];
    const items = fields.find((name) => schema.properties.data.properties[name].type === 'array')!;
    const sortBy = get.parameters.find((each: Json) => each.name === 'sort_by');
    const limit = get.parameters.find((each: Json) => each.name === 'limit');
    const defaultLimit = Number(/default (\d+)/.exec(limit.description)?.[1]);
    return [{ url: path.replace('{project_id}', projectId), items, sorts: sortBy?.schema.enum ?? [], defaultLimit }];
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
    expect([url, whole]).toEqual([url, { page: 1, limit: 100, total: all.length, total_pages: 1, offset: 0 }]);
    const times = all.map((row) => Date.parse(row.created_at));
    expect([url, times]).toEqual([url, [...times].sort((a, b) => b - a)]);

    const { pagination: unasked } = await read('');
    expect([url, unasked.page, unasked.limit]).toEqual([url, 1, defaultLimit]);
    const second = { page: 2, limit: 1, total: all.length, total_pages: all.length, offset: 1 };
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

test('a list with more than 10,000 rows says so, and its further pages can be read', async () => {
  const caller = await api.addAccount('enterprise');
  const made = await api.send(caller, 'POST', '/v1/sandboxes');
  const sandboxId = made.body.data.sandbox_id;
  await api.send(caller, 'POST', `/v1/sandboxes/${sandboxId}/terminate`);
  const read = async (query: string) => {
    const { body } = await api.send(caller, 'GET', `/v1/sandboxes?${query}`);
    return [body.data.pagination, body.data.sandboxes.length];
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
});
