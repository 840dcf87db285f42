import { Notification } from '../../../db/accounts/notification.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { storageExcess } from '../../../db/templates/template-storage.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
beforeEach(async () => {
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

const management = '/v1/user-management';
const six = {
  cpu_seconds_monthly: 1_000_000_000_000_000,
  ram_gb_seconds: 1.5,
  sandbox_storage_gb_seconds: 2.25,
  traffic_gb_seconds: 0.000001,
  template_storage_gb: 4,
  concurrent_sandboxes: 2,
};
const unlimited = {
  cpu_seconds_monthly: null,
  ram_gb_seconds: null,
  sandbox_storage_gb_seconds: null,
  traffic_gb_seconds: null,
  template_storage_gb: null,
  concurrent_sandboxes: null,
};
const allocate = (quota: Json, to = member) =>
  api.send(api.root, 'POST', `${management}/quota-allocations`, { user_id: to.userId, ...quota });
const ask = (quota: Json = {}, by = member) =>
  api.send(by, 'POST', '/v1/usage/quota-requests', {
    cpu_seconds_monthly: 10,
    template_storage_gb: 1,
    reason: 'a larger project',
    ...quota,
  });
const review = (id: string, body: Json, by = api.root) =>
  api.send(by, 'POST', `${management}/quota-requests/${id}/review`, body);
const readQuota = async (caller: Caller) => (await api.send(caller, 'GET', '/v1/usage/quotas')).body.data.quotas;

describe('allocations', () => {
  test('an allocation is made with every field, and its user can read it', async () => {
    expect(await readQuota(member)).toBeNull();
    const { status, body } = await allocate(six);
    expect(status).toBe(201);
    expect(body.data).toEqual({
      allocation_id: expect.stringMatching(/^qal-/),
      account_id: member.accountId,
      user_id: member.userId,
      allocated_by_user_id: api.root.userId,
      ...six,
      status: 'active',
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    expect(await readQuota(member)).toEqual(body.data);
  });

  test('a later one supersedes the earlier; the list shows inactive ones on request', async () => {
    const { allocation_id: first } = (await allocate(six)).body.data;
    const { allocation_id: second, ...fields } = (await allocate({})).body.data;
    expect(fields).toMatchObject(unlimited);
    expect((await readQuota(member)).allocation_id).toBe(second);
    const listed = async (query: string) => {
      const { data } = (await api.send(api.root, 'GET', `${management}/quota-allocations${query}`)).body;
      const own = data.allocations.filter((each: Json) => each.user_id === member.userId);
      return own.map((each: Json) => [each.allocation_id, each.status]);
    };
    expect(await listed('?limit=100')).toEqual([[second, 'active']]);
    expect(await listed('?limit=100&include_inactive=true')).toEqual([
      [second, 'active'],
      [first, 'superseded'],
    ]);
  });

  test('exactly one of many concurrent allocations is active', async () => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => allocate({ concurrent_sandboxes: 1 })));
    expect(replies.map((reply) => reply.status)).toEqual(Array(8).fill(201));
    const rows = await api.orm.em
      .fork()
      .execute('select status, count(*)::int from quota_allocations where user_id = ? group by 1 order by 1', [
        member.userId,
      ]);
    expect(rows).toEqual([
      { status: 'active', count: 1 },
      { status: 'superseded', count: 7 },
    ]);
  });

  test('is changed, revoked and deleted; an inactive one cannot be changed', async () => {
    const { allocation_id: id } = (await allocate(six)).body.data;
    const path = `${management}/quota-allocations/${id}`;
    const changed = await api.send(api.root, 'PUT', path, { concurrent_sandboxes: 0 });
    expect(changed.body.data).toMatchObject({ ...six, concurrent_sandboxes: 0 });
    expect((await api.send(api.root, 'PUT', path, {})).body.data).toMatchObject({ ...six, concurrent_sandboxes: 0 });
    expect((await api.send(api.root, 'POST', `${path}/revoke`)).body.data.status).toBe('revoked');
    expect(await readQuota(member)).toBeNull();
    for (const [method, url] of [
      ['PUT', path],
      ['POST', `${path}/revoke`],
    ] as const) {
      const { status, body } = await api.send(api.root, method, url, method === 'PUT' ? {} : undefined);
      expect([status, body.code]).toEqual([400, 'quota_not_active']);
    }
    expect((await api.send(api.root, 'DELETE', path)).body.data).toEqual({ allocation_id: id, deleted: true });
    expect((await api.send(api.root, 'DELETE', path)).body.code).toBe('not_found');
  });

  test('null removes a limit, and 0, which typed clients send for unset fields, is none', async () => {
    const { allocation_id: id } = (await allocate(six)).body.data;
    const path = `${management}/quota-allocations/${id}`;
    const zeros = Object.fromEntries(Object.keys(six).map((field) => [field, 0]));
    expect((await api.send(api.root, 'PUT', path, zeros)).body.data).toMatchObject({ ...six, concurrent_sandboxes: 0 });
    expect((await api.send(api.root, 'PUT', path, unlimited)).body.data).toMatchObject(unlimited);
    expect((await allocate(zeros)).body.data).toMatchObject({ ...unlimited, concurrent_sandboxes: 0 });
    expect((await api.send(member, 'POST', '/v1/sandboxes', {})).status).toBe(201);
  });

  test('only a root user of the account manages them', async () => {
    const { allocation_id: id } = (await allocate(six)).body.data;
    const foreign = await api.addAccount('enterprise');
    const path = `${management}/quota-allocations/${id}`;
    expect((await api.send(member, 'PUT', path, {})).body.code).toBe('root_required');
    expect((await api.send(foreign, 'PUT', path, {})).body.code).toBe('not_found');
    const made = await api.send(foreign, 'POST', `${management}/quota-allocations`, { user_id: member.userId });
    expect([made.status, made.body.code]).toEqual([404, 'not_found']);
    expect((await readQuota(member)).allocation_id).toBe(id);
  });

  test.each([
    [{ user_id: 5 }],
    [{ user_id: 'x'.repeat(65) }],
    [{ concurrent_sandboxes: -1 }],
    [{ concurrent_sandboxes: 1.5 }],
    [{ cpu_seconds_monthly: 2 ** 53 }],
    [{ ram_gb_seconds: '5' }],
    [{ traffic_gb_seconds: 1e13 }],
  ])('%j is 400 and makes nothing', async (quota) => {
    const { status, body } = await allocate(quota);
    expect([status, body.code]).toEqual([400, 'validation_failed']);
    expect(await readQuota(member)).toBeNull();
  });
});

test("storage-usage shows the caller's own use and the limit of their own quota, not of another user's", async () => {
  const other = await api.addUser(api.root);
  const imageBlobs = [{ digest: `sha256:${member.userId}`, size: 1024 ** 3 }];
  await api.addTemplate({
    ...{ visibility: 'private', accountId: member.accountId, ownerUserId: member.userId, imageBlobs },
  });
  const own = async (caller: Caller) => {
    const { user_used_gb, user_limit_gb } = (await api.send(caller, 'GET', '/v1/templates/storage-usage')).body.data;
    return [user_used_gb, user_limit_gb];
  };
  expect(await own(member)).toEqual([1, null]);
  const { allocation_id: id } = (await allocate({ template_storage_gb: 2.5 })).body.data;
  expect(await own(member)).toEqual([1, 2.5]);
  expect(await own(other)).toEqual([0, null]);
  await api.send(api.root, 'POST', `${management}/quota-allocations/${id}/revoke`);
  expect(await own(member)).toEqual([1, null]);
});

describe('an allocation without a user', () => {
  let root: Caller;
  beforeEach(async () => {
    root = await api.addAccount('enterprise');
    member = await api.addUser(root);
  });
  const path = `${management}/quota-allocations`;
  const limit = (quota: Json) => api.send(root, 'POST', path, quota);
  const create = (caller: Caller) => api.send(caller, 'POST', '/v1/sandboxes', {});
  const read = async (caller: Caller) => (await api.send(caller, 'GET', '/v1/usage/quotas')).body.data;

  test('limits the account; all its users can read it, and their own besides', async () => {
    expect(await read(member)).toMatchObject({ quotas: null, account_quotas: null, account_used: null });
    const { status, body } = await limit(six);
    expect([status, body.data]).toEqual([
      201,
      {
        allocation_id: expect.stringMatching(/^qal-/),
        account_id: root.accountId,
        user_id: null,
        allocated_by_user_id: root.userId,
        ...six,
        status: 'active',
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    const own = await api.send(root, 'POST', path, { user_id: member.userId, concurrent_sandboxes: 1 });
    const used = { cpu_seconds: 0, ram_gb_seconds: 0, sandbox_storage_gb_seconds: 0, traffic_gb: 0 };
    expect(await read(member)).toMatchObject({
      quotas: own.body.data,
      account_quotas: body.data,
      account_used: used,
    });
    expect(await read(root)).toMatchObject({ quotas: null, account_quotas: body.data });
    const { allocations } = (await api.send(root, 'GET', path)).body.data;
    expect(allocations).toEqual([own.body.data, body.data]);
    // Other accounts are not concerned.
    expect((await read(api.root)).account_quotas).toBeNull();
  });

  test.each([[undefined], [{}], [{ user_id: null }], [{ user_id: '' }]])(
    '%j allocates no limit to it',
    async (quota) => {
      const { status, body } = await api.send(root, 'POST', path, quota);
      expect([status, body.data]).toMatchObject([201, { user_id: null, ...unlimited }]);
    },
  );

  test('a later one supersedes the earlier, but no quota of a user; it is changed, revoked and deleted', async () => {
    const own = (await api.send(root, 'POST', path, { user_id: member.userId, concurrent_sandboxes: 1 })).body.data;
    const [first, second] = [(await limit(six)).body.data, (await limit({ concurrent_sandboxes: 4 })).body.data];
    const all = (await api.send(root, 'GET', `${path}?include_inactive=true`)).body.data.allocations;
    expect(all.map((each: Json) => [each.allocation_id, each.status])).toEqual([
      [second.allocation_id, 'active'],
      [first.allocation_id, 'superseded'],
      [own.allocation_id, 'active'],
    ]);
    const one = `${path}/${second.allocation_id}`;
    const changed = await api.send(root, 'PUT', one, { concurrent_sandboxes: 5 });
    expect(changed.body.data).toMatchObject({ user_id: null, concurrent_sandboxes: 5 });
    const foreign = await api.addAccount('enterprise');
    for (const [caller, code] of [
      [member, 'root_required'],
      [foreign, 'not_found'],
    ] as const) {
      expect((await api.send(caller, 'PUT', one, {})).body.code).toBe(code);
      expect((await api.send(caller, 'DELETE', one)).body.code).toBe(code);
    }
    expect((await api.send(member, 'POST', path, {})).body.code).toBe('root_required');
    expect((await api.send(root, 'POST', `${one}/revoke`)).body.data.status).toBe('revoked');
    expect(await read(member)).toMatchObject({ quotas: own, account_quotas: null });
    expect((await api.send(root, 'DELETE', one)).body.data.deleted).toBe(true);
    expect((await api.send(root, 'DELETE', one)).body.code).toBe('not_found');
  });

  test('exactly one of many concurrent ones is active', async () => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => limit({ concurrent_sandboxes: 1 })));
    expect(replies.map((reply) => reply.status)).toEqual(Array(8).fill(201));
    const rows = await api.orm.em
      .fork()
      .execute(
        'select status, count(*)::int from quota_allocations where account_id = ? and user_id is null group by 1 order by 1',
        [root.accountId],
      );
    expect(rows).toEqual([
      { status: 'active', count: 1 },
      { status: 'superseded', count: 7 },
    ]);
  });

  test('counts the concurrent sandboxes of all users, also of concurrent creates and of a resume', async () => {
    await limit({ concurrent_sandboxes: 3 });
    const callers = [root, member, await api.addUser(root)];
    const replies = await Promise.all(Array.from({ length: 9 }, (_, index) => create(callers[index % 3]!)));
    const refused = replies.filter((reply) => reply.status !== 201);
    expect(refused).toHaveLength(6);
    for (const { status, body } of refused) {
      expect([status, body.code]).toEqual([429, 'concurrent_limit_reached']);
      expect(body.error).toContain('quota of the account allows 3 sandboxes');
    }
    expect(await api.orm.em.fork().count(Sandbox, { accountId: root.accountId })).toBe(3);
    const { sandbox_id: paused } = replies.find((reply) => reply.status === 201)!.body.data;
    await api.send(root, 'POST', `/v1/sandboxes/${paused}/pause`);
    expect((await create(member)).status).toBe(201);
    const resume = () => api.send(root, 'POST', `/v1/sandboxes/${paused}/resume`);
    expect((await resume()).body.code).toBe('concurrent_limit_reached');
    const { account_quotas: quota } = await read(member);
    await api.send(root, 'PUT', `${path}/${quota.allocation_id}`, { concurrent_sandboxes: 0 });
    expect((await resume()).status).toBe(200);
  });

  test('above the plan it raises nothing', async () => {
    const small = await api.addAccount('hobby');
    const { maxConcurrentSandboxes: most } = api.plans.get('hobby')!;
    await api.send(small, 'POST', path, { concurrent_sandboxes: most + 5 });
    for (let number = 0; number < most; number++) expect((await create(small)).status).toBe(201);
    const { status, body } = await create(small);
    expect([status, body.error]).toEqual([429, expect.stringContaining(`plan allows ${most} sandboxes`)]);
  });

  test('and that of the user both apply', async () => {
    await limit({ concurrent_sandboxes: 2 });
    await api.send(root, 'POST', path, { user_id: member.userId, concurrent_sandboxes: 1 });
    expect((await create(member)).status).toBe(201);
    expect((await create(member)).body.error).toContain('quota of the user allows 1');
    expect((await create(root)).status).toBe(201);
    expect((await create(root)).body.error).toContain('quota of the account allows 2');
  });

  test('limits the images of all users, and storage-usage shows the lower limit', async () => {
    const blob = (digest: string, gb: number) => [{ digest: `sha256:${digest}`, size: gb * 1024 ** 3 }];
    const images = { visibility: 'private' as const, accountId: root.accountId };
    await api.addTemplate({ ...images, ownerUserId: root.userId, imageBlobs: blob('a', 1) });
    await api.addTemplate({ ...images, ownerUserId: member.userId, imageBlobs: blob('b', 2) });
    const usage = async (caller: Caller) => (await api.send(caller, 'GET', '/v1/templates/storage-usage')).body.data;
    const ofPlan = api.plans.get('enterprise')!.maxTemplateStorageGb;
    expect(await usage(member)).toMatchObject({ used_gb: 3, limit_gb: ofPlan, user_limit_gb: null });
    await limit({ template_storage_gb: 4 });
    expect(await usage(member)).toEqual({
      ...{ used_gb: 3, limit_gb: 4, user_used_gb: 2, user_limit_gb: null, percentage: 75 },
    });
    const template = { ...images, ownerUserId: member.userId };
    const em = api.orm.em.fork();
    expect(await storageExcess(em, api.plans, template, blob('c', 1))).toBeNull();
    expect(await storageExcess(em, api.plans, template, blob('c', 1.5))).toEqual({ of: 'account_quota', limitGb: 4 });
    await api.send(root, 'POST', path, { user_id: member.userId, template_storage_gb: 2.5 });
    expect(await usage(member)).toMatchObject({ limit_gb: 4, user_limit_gb: 2.5 });
    expect(await usage(root)).toMatchObject({ limit_gb: 4, user_used_gb: 1, user_limit_gb: null });
    expect(await storageExcess(em, api.plans, template, blob('c', 1))).toEqual({ of: 'user_quota', limitGb: 2.5 });
    await limit({ template_storage_gb: ofPlan + 1 });
    expect(await usage(member)).toMatchObject({ limit_gb: ofPlan });
  });
});

describe('a quota of concurrent sandboxes', () => {
  const create = () => api.send(member, 'POST', '/v1/sandboxes', {});

  test('is enforced for concurrent creates', async () => {
    await allocate({ concurrent_sandboxes: 3 });
    const replies = await Promise.all(Array.from({ length: 8 }, create));
    const refused = replies.filter((reply) => reply.status !== 201);
    expect(refused).toHaveLength(5);
    for (const reply of refused) expect([reply.status, reply.body.code]).toEqual([429, 'concurrent_limit_reached']);
    expect(refused[0]!.body.error).toContain('quota of the user allows 3');
    expect(await api.orm.em.fork().count(Sandbox, { ownerUserId: member.userId })).toBe(3);
  });

  test('is enforced for a resume, and 0 means no limit', async () => {
    const { allocation_id: id } = (await allocate({ concurrent_sandboxes: 1 })).body.data;
    const { sandbox_id: paused } = (await create()).body.data;
    await api.send(member, 'POST', `/v1/sandboxes/${paused}/pause`);
    expect((await create()).status).toBe(201);
    const resume = () => api.send(member, 'POST', `/v1/sandboxes/${paused}/resume`);
    expect((await resume()).body.code).toBe('concurrent_limit_reached');
    await api.send(api.root, 'PUT', `${management}/quota-allocations/${id}`, { concurrent_sandboxes: 0 });
    expect((await resume()).status).toBe(200);
  });
});

describe('requests', () => {
  test('a request is made with every field; the root users are notified', async () => {
    const { status, body } = await ask(six);
    expect(status).toBe(201);
    expect(body.data).toEqual({
      request_id: expect.stringMatching(/^qtr-/),
      user_id: member.userId,
      account_id: member.accountId,
      ...six,
      reason: 'a larger project',
      status: 'pending',
      reviewed_by: null,
      reviewed_at: null,
      review_notes: null,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    const [notified, ...more] = await api.orm.em
      .fork()
      .find(Notification, { relatedEntityId: body.data.request_id, type: 'quota_request_created' });
    expect([notified?.userId, more]).toEqual([api.root.userId, []]);
  });

  test('a second one while the first is pending is 400, also when both are concurrent', async () => {
    const replies = await Promise.all(Array.from({ length: 5 }, () => ask()));
    expect(replies.filter((reply) => reply.status === 201)).toHaveLength(1);
    for (const { status, body } of replies.filter((reply) => reply.status !== 201)) {
      expect([status, body.code]).toEqual([400, 'quota_request_pending']);
    }
  });

  test('a pending one can be replaced and withdrawn; afterwards neither', async () => {
    const { request_id: id } = (await ask(six)).body.data;
    const path = `/v1/usage/quota-requests/${id}`;
    const wanted = { cpu_seconds_monthly: 7, template_storage_gb: 0.5, reason: 'less' };
    const changed = await api.send(member, 'PUT', path, wanted);
    expect(changed.body.data).toMatchObject({ ...unlimited, ...wanted, status: 'pending' });
    expect((await api.send(member, 'DELETE', path)).body.data.status).toBe('withdrawn');
    for (const { status, body } of [
      await api.send(member, 'DELETE', path),
      await api.send(member, 'PUT', path, wanted),
      await review(id, { action: 'approve' }),
    ]) {
      expect([status, body.code]).toEqual([400, 'quota_request_not_pending']);
    }
    expect((await ask()).status).toBe(201);
  });

  test('an approval allocates the requested quota and notifies the user', async () => {
    const { request_id: id } = (await ask(six)).body.data;
    const { body } = await review(id, { action: 'approve', review_notes: 'well earned' });
    expect(body.data).toMatchObject({
      status: 'approved',
      reviewed_by: api.root.userId,
      reviewed_at: expect.any(String),
      review_notes: 'well earned',
    });
    expect(await readQuota(member)).toMatchObject({ ...six, allocated_by_user_id: api.root.userId });
    const { notifications } = (await api.send(member, 'GET', '/v1/notifications')).body.data;
    expect(notifications.map((each: Json) => each.type)).toEqual(['quota_request_approved']);
    expect(notifications[0].message).toContain('well earned');
  });

  test('a request with zeros or null asks for no limit, and its approval locks nobody out', async () => {
    const zeros = Object.fromEntries(Object.keys(six).map((field) => [field, 0]));
    const { status, body } = await ask(zeros);
    expect([status, body.data]).toMatchObject([201, { ...unlimited, concurrent_sandboxes: 0 }]);
    const path = `/v1/usage/quota-requests/${body.data.request_id}`;
    const nulls = await api.send(member, 'PUT', path, { ...unlimited, reason: 'none' });
    expect(nulls.body.data).toMatchObject(unlimited);
    await review(body.data.request_id, { action: 'approve' });
    expect(await readQuota(member)).toMatchObject(unlimited);
    // A zero in an allocation is no limit either.
    await api.orm.em
      .fork()
      .execute('update quota_allocations set cpu_seconds_monthly = 0, traffic_gb_seconds = 0 where user_id = ?', [
        member.userId,
      ]);
    expect((await api.send(member, 'POST', '/v1/sandboxes', {})).status).toBe(201);
  });

  test('a denial allocates nothing and notifies the user', async () => {
    const { request_id: id } = (await ask()).body.data;
    expect((await review(id, { action: 'deny' })).body.data).toMatchObject({ status: 'denied', review_notes: null });
    expect(await readQuota(member)).toBeNull();
    const { notifications } = (await api.send(member, 'GET', '/v1/notifications')).body.data;
    expect(notifications.map((each: Json) => each.type)).toEqual(['quota_request_denied']);
  });

  test('of a concurrent review and withdrawal exactly one succeeds, and the quota agrees', async () => {
    for (let round = 0; round < 5; round++) {
      const { request_id: id } = (await ask({ cpu_seconds_monthly: 1000 + round })).body.data;
      const [withdrawn, reviewed] = await Promise.all([
        api.send(member, 'DELETE', `/v1/usage/quota-requests/${id}`),
        review(id, { action: 'approve' }),
      ]);
      expect([withdrawn.status, reviewed.status].sort()).toEqual([200, 400]);
      const isApproved = (await readQuota(member))?.cpu_seconds_monthly === 1000 + round;
      expect(isApproved).toBe(reviewed.status === 200);
    }
  });

  test('lists show their status; users see their own, root users those of the account', async () => {
    const { request_id: id } = (await ask()).body.data;
    const other = await api.addUser(api.root);
    const ids = async (url: string, caller: Caller) =>
      (await api.send(caller, 'GET', url)).body.data.requests.map((each: Json) => each.request_id);
    expect(await ids('/v1/usage/quota-requests?status=pending', member)).toEqual([id]);
    expect(await ids('/v1/usage/quota-requests?status=denied', member)).toEqual([]);
    expect(await ids('/v1/usage/quota-requests', other)).toEqual([]);
    expect(await ids('/v1/usage/quota-requests?limit=100', api.root)).toContain(id);
    expect(await ids(`${management}/quota-requests?status=pending&limit=100`, api.root)).toContain(id);
    expect((await api.send(member, 'GET', `${management}/quota-requests`)).body.code).toBe('root_required');
  });

  test.each([
    [{ cpu_seconds_monthly: undefined }],
    [{ template_storage_gb: 'much' }],
    [{ template_storage_gb: -1 }],
    [{ reason: ' ' }],
    [{ reason: 'x'.repeat(2001) }],
  ])('%j is 400 and makes nothing', async (quota) => {
    const { status, body } = await ask(quota);
    expect([status, body.code]).toEqual([400, 'validation_failed']);
    expect((await api.send(member, 'GET', '/v1/usage/quota-requests')).body.data.pagination.total).toBe(0);
  });

  test.each([[{}], [{ action: 'maybe' }], [{ action: 'approve', review_notes: 5 }]])(
    'a review %j is 400',
    async (body) => {
      const { request_id: id } = (await ask()).body.data;
      expect((await review(id, body)).body.code).toBe('validation_failed');
      expect((await review('qtr-none', { action: 'deny' })).body.code).toBe('not_found');
    },
  );
});
