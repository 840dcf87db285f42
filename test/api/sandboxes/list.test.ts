import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
let colleague: Caller;
let stranger: Caller;
let second: SandboxId;
const names = new Map<string, string>();

beforeAll(async () => {
  api = await startApi({ planName: 'team' });
  member = await api.addUser(api.root);
  colleague = await api.addUser(api.root);
  stranger = await api.addAccount('team');
  second = (await api.send(member, 'POST', '/v1/projects', { name: 'Second' })).body.data.project_id;
  await make(member, { name: 'alpha', description: 'first of all', metadata: { team: 'blue', n: '1' } });
  const beta = await make(member, { name: 'beta', metadata: { team: 'blue', n: '2' } });
  await make(member, { name: 'gamma', description: '100% sure', project_id: second, metadata: { team: 'red' } });
  const gone = await make(member, { name: 'gone' });
  await make(colleague, { name: 'delta' });
  await make(api.root, { name: 'roots-own' });
  await make(stranger, { name: 'foreign' });
  await api.commands.run(beta);
  await api.send(member, 'DELETE', `/v1/sandboxes/${gone}`);
});
afterAll(() => api.stop());

async function make(caller: Caller, body: Json): Promise<SandboxId> {
  const reply = await api.send(caller, 'POST', '/v1/sandboxes', { is_async: true, ...body });
  names.set(reply.body.data.sandbox_id, body.name);
  return reply.body.data.sandbox_id;
}

async function list(query = '', caller = member): Promise<string[]> {
  const reply = await api.send(caller, 'GET', `/v1/sandboxes${query}`);
  expect(reply.status).toBe(200);
  expect(reply.body.data.pagination.total).toBe(reply.body.data.sandboxes.length);
  return reply.body.data.sandboxes.map((item: Json) => item.name);
}

test('newest first, without deleted ones; a user sees their own, the root those of the account', async () => {
  expect(await list()).toEqual(['gamma', 'beta', 'alpha']);
  expect(await list('', colleague)).toEqual(['delta']);
  expect(await list('', api.root)).toEqual(['roots-own', 'delta', 'gamma', 'beta', 'alpha']);
  expect(await list('', stranger)).toEqual(['foreign']);
});

test.each([
  ['status=running', ['beta']],
  ['status=running,starting', ['gamma', 'beta', 'alpha']],
  ['status=paused', []],
  ['search=alp', ['alpha']],
  ['search=ALP', ['alpha']],
  ['search=first', ['alpha']],
  ['search=%25', ['gamma']],
  ['search=_', []],
  ['metadata={"team":"blue"}', ['beta', 'alpha']],
  ['metadata={"team":"blue","n":1}', ['alpha']],
  ['metadata=team=red', ['gamma']],
  ['metadata=team=blue,n=2', ['beta']],
  ['metadata=team%3Dblue%26n%3D2', ['beta']],
  ['metadata=team=green', []],
  ['sort_by=name&sort_order=asc', ['alpha', 'beta', 'gamma']],
  ['sort_by=name', ['gamma', 'beta', 'alpha']],
  ['sort_by=created_at&sort_order=asc', ['alpha', 'beta', 'gamma']],
  ['sort_by=started_at&limit=100', ['beta', expect.any(String), expect.any(String)]],
  ['status=&search=&metadata=&page=&limit=null', ['gamma', 'beta', 'alpha']],
  ['unknown=parameter', ['gamma', 'beta', 'alpha']],
])('filter ?%s', async (query, expected) => {
  expect(await list(`?${query.replaceAll('"', '%22').replaceAll(' ', '%20')}`)).toEqual(expected);
});

test('by id, by project and, for the account root, by owner', async () => {
  const [alpha] = [...names].find(([, name]) => name === 'alpha')!;
  expect(await list(`?search=${alpha.slice(4, 16)}`)).toEqual(['alpha']);
  expect(await list(`?project_id=${second}`)).toEqual(['gamma']);
  expect(await list(`?project_id=${stranger.projectId}`)).toEqual([]);
  expect(await list(`?owner_user_id=${colleague.userId}`, api.root)).toEqual(['delta']);
  expect(await list(`?owner_user_id=${stranger.userId}`, api.root)).toEqual([]);
  expect(await list(`?owner_user_id=${member.userId}`)).toEqual(['gamma', 'beta', 'alpha']);
  const refused = await api.send(member, 'GET', `/v1/sandboxes?owner_user_id=${colleague.userId}`);
  expect([refused.status, refused.body.code]).toEqual([403, 'root_required']);
});

test.each([
  ['?limit=2', ['gamma', 'beta'], { page: 1, limit: 2, total: 3, total_pages: 2, offset: 0 }],
  ['?limit=2&page=2', ['alpha'], { page: 2, limit: 2, total: 3, total_pages: 2, offset: 2 }],
  ['?page_size=1&page=3', ['alpha'], { page: 3, limit: 1, total: 3, total_pages: 3, offset: 2 }],
  ['?limit=1&offset=1', ['beta'], { page: 2, limit: 1, total: 3, total_pages: 3, offset: 1 }],
  ['?limit=1&skip=2', ['alpha'], { page: 3, limit: 1, total: 3, total_pages: 3, offset: 2 }],
  ['?limit=1000', ['gamma', 'beta', 'alpha'], { page: 1, limit: 100, total: 3, total_pages: 1, offset: 0 }],
  ['?limit=2&page=9', [], { page: 9, limit: 2, total: 3, total_pages: 2, offset: 16 }],
  ['?status=paused', [], { page: 1, limit: 50, total: 0, total_pages: 0, offset: 0 }],
])('page %s', async (query, expected, pagination) => {
  const { body } = await api.send(member, 'GET', `/v1/sandboxes${query}`);
  expect(body.data.sandboxes.map((item: Json) => item.name)).toEqual(expected);
  expect(body.data.pagination).toMatchObject(pagination);
});

test.each([
  ['metadata', 'a & b, c=d'],
  ['metadata', '100%'],
  ['metadata', '50%20'],
  ['größe/ключ', 'läuft ✓ +1'],
])('a metadata filter finds encoded characters: %s %s', async (key, value) => {
  const owner = await api.addAccount();
  await make(owner, { name: 'other', metadata: { [key]: 'else' } });
  await make(owner, { name: 'wanted', metadata: { [key]: value } });
  const once = `${encodeURIComponent(key)}=${encodeURIComponent(value)}`;
  const twice = `${encodeURIComponent(encodeURIComponent(key))}=${encodeURIComponent(encodeURIComponent(value))}`;
  for (const filter of [JSON.stringify({ [key]: value }), once, twice]) {
    expect([filter, await list(`?metadata=${encodeURIComponent(filter)}`, owner)]).toEqual([filter, ['wanted']]);
  }
});

test.each([
  ['page=-1', 'invalid_pagination', 'page'],
  ['page=one', 'invalid_pagination', 'page'],
  ['page=1.5', 'invalid_pagination', 'page'],
  ['page=1e99', 'invalid_pagination', 'page'],
  ['limit=-1', 'invalid_pagination', 'limit'],
  ['page_size=x', 'invalid_pagination', 'page_size'],
  ['offset=-1', 'invalid_pagination', 'offset'],
  ['skip=99999999999', 'invalid_pagination', 'skip'],
  ['page=1&page=2', 'invalid_pagination', 'page'],
  ['status=asleep', 'validation_failed', 'status'],
  ['sort_by=password_hash', 'validation_failed', 'sort_by'],
  ['sort_order=up', 'validation_failed', 'sort_order'],
  ['metadata=nothing', 'validation_failed', 'metadata'],
  ['metadata=%7B%22a%22', 'validation_failed', 'metadata'],
  ['metadata=%7B%22a%22%3A%7B%7D%7D', 'validation_failed', 'metadata'],
  [String.raw`metadata={"a":"\u0000"}`, 'validation_failed', 'metadata'],
  [String.raw`metadata={"a\ud800":"b"}`, 'validation_failed', 'metadata'],
])('an invalid query is 400: %s', async (query, code, path) => {
  const reply = await api.send(member, 'GET', `/v1/sandboxes?${query}`);
  expect([reply.status, reply.body.code, reply.body.details?.[0].path]).toEqual([400, code, path]);
});

test('the pages of a long list have each item once, also with equal times', async () => {
  const em = api.orm.em.fork();
  const owner = await api.addAccount();
  const sample = await em.findOneOrFail(Sandbox, { accountId: stranger.accountId });
  await em.execute(
    `insert into sandboxes (sandbox_id, account_id, owner_user_id, project_id, name, template_id, template_name,
       template_source, image, cpu_count, memory_mb, storage_gb, timeout_seconds, status, region, host_id,
       holds_compute, holds_disk, created_at)
     select 'sbx-many' || n, ?, ?, ?, 'n' || n, template_id, template_name, template_source, image, 1, 128, 1, 300,
            'terminated', region, host_id, false, false, timestamptz '2026-01-01' + (n / 10) * interval '1 second'
       from sandboxes, generate_series(1, 250) n where sandbox_id = ?`,
    [owner.accountId, owner.userId, owner.projectId, sample.sandboxId],
  );
  const seen: string[] = [];
  for (let page = 1; page <= 3; page++) {
    const { body } = await api.send(owner, 'GET', `/v1/sandboxes?limit=100&page=${page}`);
    expect(body.data.pagination).toMatchObject({ total: 250, total_pages: 3 });
    seen.push(...body.data.sandboxes.map((item: Json) => item.sandbox_id));
  }
  expect(new Set(seen).size).toBe(250);
});
