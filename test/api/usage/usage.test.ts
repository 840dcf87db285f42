import { Notification } from '../../../db/accounts/notification.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { warnOfQuotas } from '../../../db/usage/metered-quotas.ts';
import { rollUpUsage } from '../../../db/usage/usage-upkeep.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

/** The usage as users read it. The tests set the times of lives, within the present month. */
let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
beforeEach(async () => {
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

const hourMs = 3_600_000;
const get = async (caller: Caller, path: string): Promise<Json> => {
  const { status, body } = await api.send(caller, 'GET', `/v1/usage/${path}`);
  expect([path, status, body.error]).toEqual([path, 200, undefined]);
  return body.data;
};
const create = (caller: Caller, fields: Json = {}) =>
  api.send(caller, 'POST', '/v1/sandboxes', {
    cpu_count: 2,
    memory_mb: 512,
    storage_gb: 10,
    is_async: true,
    ...fields,
  });

/**
 * The life of a sandbox: it runs from this time, is paused after an hour, and ends after another one, except if it
 * continues.
 */
async function life(
  caller: Caller,
  from: Date,
  { fields = {}, end = 'completed' }: { fields?: Json; end?: string } = {},
) {
  const { sandbox_id: id } = (await create(caller, fields)).body.data;
  const { life: rows } = api.commands;
  const at = (hours: number) => new Date(from.getTime() + hours * hourMs);
  await rows.begin(id, 1);
  await api.commands.run(id, from);
  await rows.pause(id, 'user_requested', at(1), true);
  if (end === 'failed') {
    const failure = { message: 'gone', exitCode: 1, outOfMemory: false, commandOutput: '' };
    await rows.fail(id, 'host_lost', failure, at(2));
  } else if (end === 'completed') {
    await rows.beginTermination(id, 'user_requested');
    await rows.endTermination(id, 'completed', at(2), true);
  }
  return id as string;
}
const wholeHourMs = Math.floor(Date.now() / hourMs) * hourMs;
/** In the past month, at a whole hour, which stays the same if the next hour begins in the meantime. */
const daysAgo = (days: number) => new Date(wholeHourMs - days * 24 * hourMs);

describe('the summary', () => {
  test('adds up sessions, hours and costs of the period, which is the last 30 days by default', async () => {
    await life(member, daysAgo(3));
    await life(member, daysAgo(2), { end: 'failed' });
    await life(member, daysAgo(40));
    const { summary, time_period: period, groups } = await get(member, 'summary');
    expect(summary).toEqual({
      total_sessions: 2,
      active_sessions: 0,
      completed_sessions: 1,
      failed_sessions: 1,
      total_cpu_hours: 4,
      total_memory_gb_hours: 1,
      total_storage_gb_hours: 40,
      total_traffic_gb: 0,
      total_template_storage_gb_hours: 0,
      total_cpu_hours_used: 0,
      total_memory_gb_hours_used: 0,
      // 14400 core-seconds, 3600 GB-seconds of memory, 144000 of disk.
      total_cost: 0.22212,
      avg_session_duration: 7200,
      currency: 'USD',
    });
    expect(Date.parse(period.end) - Date.parse(period.start)).toBe(30 * 24 * hourMs);
    expect(groups).toBeNull();
    const long = await get(member, `summary?start=${daysAgo(50).toISOString()}`);
    expect(long.summary).toMatchObject({ total_sessions: 3, total_cpu_hours: 6 });
  });

  test('without sessions is all zeros, also the average duration', async () => {
    const { summary } = await get(member, 'summary');
    const { currency, ...numbers } = summary;
    expect(currency).toBe('USD');
    expect(numbers).toMatchObject({ total_sessions: 0, avg_session_duration: 0, total_cost: 0 });
    expect(new Set(Object.values(numbers))).toEqual(new Set([0]));
    expect((await get(member, 'analytics')).summary.avg_session_duration).toBe(0);
  });

  test('is that of the caller, of the account for its root, and of a named account for an admin', async () => {
    const account = await api.addAccount('enterprise');
    const [one, other] = [await api.addUser(account), await api.addUser(account)];
    await life(one, daysAgo(3));
    await life(other, daysAgo(3));
    const cpu = async (caller: Caller, query = '') => (await get(caller, `summary${query}`)).summary.total_cpu_hours;
    expect([await cpu(one), await cpu(other), await cpu(account)]).toEqual([2, 2, 4]);
    expect(await cpu(one, `?project_id=${one.projectId}`)).toBe(2);
    expect(await cpu(one, `?project_id=${other.projectId}`)).toBe(0);
    // The first account's root is an admin.
    expect(await cpu(api.root, `?account_id=${account.accountId}`)).toBe(4);
    const refused = await api.send(account, 'GET', `/v1/usage/summary?account_id=${api.root.accountId}`);
    expect([refused.status, refused.body.code]).toEqual([403, 'admin_required']);
  });

  test('is grouped by project, user and any key of the metadata, and the groups add up to the total', async () => {
    const account = await api.addAccount('enterprise');
    const user = await api.addUser(account);
    await life(account, daysAgo(3), { fields: { metadata: { team: 'blue', stage: 'test' } } });
    await life(user, daysAgo(2), { fields: { metadata: { team: 'red' } } });
    await rollUpUsage(api.orm.em);
    await life(user, daysAgo(1), { fields: { metadata: { team: 'red', stage: 'test' } } });
    await life(user, daysAgo(1));
    const grouped = async (by: string) => {
      const { summary, groups, total_groups: count } = await get(account, `summary?group_by=${by}`);
      expect(summary.total_cpu_hours).toBe(8);
      expect(count).toBe(groups.length);
      const sum = groups.reduce((all: number, group: Json) => all + group.total_cpu_hours, 0);
      expect([by, sum]).toEqual([by, 8]);
      return Object.fromEntries(groups.map((group: Json) => [group.value, group.total_cpu_hours]));
    };
    for (const time of ['before', 'after']) {
      expect([time, await grouped('project_id')]).toEqual([time, { [account.projectId]: 2, [user.projectId]: 6 }]);
      expect(await grouped('user_id')).toEqual({ [account.userId]: 2, [user.userId]: 6 });
      expect(await grouped('metadata.team')).toEqual({ blue: 2, red: 4, null: 2 });
      expect(await grouped('metadata.stage')).toEqual({ test: 4, null: 4 });
      expect(await grouped('metadata.nobody%20has')).toEqual({ null: 8 });
      await rollUpUsage(api.orm.em);
    }
  });

  test.each([
    ['start=2026-03-02&end=2026-03-01', 'invalid_date_range'],
    ['start=1726-03-02', 'invalid_date_range'],
    ['start=2026-01-01&end=2927-01-01', 'invalid_date_range'],
    ['start=2024-01-01&end=2026-01-01', 'invalid_date_range'],
    ['start=yesterday', 'validation_failed'],
    ['group_by=account', 'validation_failed'],
    ['group_by=metadata.', 'validation_failed'],
    [`group_by=metadata.${'x'.repeat(300)}`, 'validation_failed'],
  ])('%s is 400 with a reason', async (query, code) => {
    for (const path of ['summary', 'analytics']) {
      const { status, body } = await api.send(member, 'GET', `/v1/usage/${path}?${query}`);
      expect([path, status, body.code, body.details[0]]).toEqual([
        path,
        400,
        code,
        { path: expect.stringMatching(/start|end|group_by/), reason: expect.any(String) },
      ]);
    }
  });
});

test('analytics has the summary, and charts by day and by cost that add up to it', async () => {
  await life(member, daysAgo(3), { fields: { metadata: { team: 'blue' } } });
  await life(member, daysAgo(2));
  await life(member, daysAgo(2), { end: 'lives on' });
  const { summary, charts, groups } = await get(member, 'analytics?group_by=metadata.team');
  const alone = await get(member, 'summary');
  expect(summary).toMatchObject({ total_cpu_hours: 6, total_sessions: 3, active_sessions: 1 });
  expect(alone.summary.total_cpu_hours).toBe(6);
  expect(charts.sessions_over_time).toEqual([
    { date: daysAgo(3).toISOString().slice(0, 10), sessions: 1 },
    { date: daysAgo(2).toISOString().slice(0, 10), sessions: 2 },
  ]);
  const sum = (field: string) => charts.resource_utilization.reduce((all: number, day: Json) => all + day[field], 0);
  expect(sum('total_cpu_hours')).toBe(6);
  expect(sum('total_storage_gb_hours')).toBeCloseTo(summary.total_storage_gb_hours, 3);
  expect(charts.cost_breakdown.map((each: Json) => each.usage_type).sort()).toEqual([
    'cpu_seconds',
    'ram_gb_seconds',
    'sandbox_storage_gb_seconds',
  ]);
  expect(charts.cost_breakdown.reduce((all: number, each: Json) => all + each.percentage, 0)).toBeCloseTo(100, 1);
  expect(charts.cost_breakdown.reduce((all: number, each: Json) => all + each.cost, 0)).toBeCloseTo(
    summary.total_cost,
    4,
  );
  expect(groups.map((group: Json) => group.value).sort()).toEqual(['blue', null]);
});

describe('sessions', () => {
  test('are lives with their costs; a current one has no end and no final cost', async () => {
    const ended = await life(member, daysAgo(3), { fields: { name: 'ended' } });
    const failed = await life(member, daysAgo(2), { end: 'failed' });
    const living = await life(member, daysAgo(1), { end: 'lives on' });
    await create(member);
    const { sessions, pagination } = await get(member, 'sessions');
    expect(pagination.total).toBe(3);
    expect(sessions.map((each: Json) => [each.resource_id, each.status])).toEqual([
      [living, 'active'],
      [failed, 'failed'],
      [ended, 'completed'],
    ]);
    expect(sessions[2]).toEqual({
      session_id: ended.replace('sbx-', 'uss-'),
      resource_type: 'sandbox',
      resource_id: ended,
      resource_name: 'ended',
      status: 'completed',
      start_time: daysAgo(3).toISOString(),
      end_time: new Date(daysAgo(3).getTime() + 2 * hourMs).toISOString(),
      duration: 7200,
      cpu_count: 2,
      memory_mb: 512,
      storage_gb: 10,
      estimated_cost: 0.11106,
      final_cost: 0.11106,
    });
    expect(sessions[0]).toMatchObject({ end_time: null, final_cost: null });
    expect(sessions[0].estimated_cost).toBeGreaterThan(0.1);
    expect(sessions[0].duration).toBeGreaterThanOrEqual(24 * 3600 - 1);
    const bounds = `start=${daysAgo(2).toISOString()}&end=${daysAgo(1).toISOString()}`;
    const within = await get(member, `sessions?${bounds}`);
    expect(within.sessions.map((each: Json) => each.resource_id)).toEqual([failed]);
    // A deleted sandbox keeps its cost.
    await api.send(member, 'DELETE', `/v1/sandboxes/${ended}`);
    await api.commands.life.forget(ended as SandboxId, new Date());
    expect((await get(member, 'sessions')).pagination.total).toBe(3);
  });
});

describe('events', () => {
  test('have every field, and are filtered by time, project, resource and type', async () => {
    const id = await life(member, daysAgo(3), { fields: { metadata: { team: 'blue' } } });
    const { events, pagination } = await get(member, 'events');
    expect(pagination).toMatchObject({ total: 4, limit: 50 });
    const start = daysAgo(3).getTime();
    const iso = (hours: number) => new Date(start + hours * hourMs).toISOString();
    const of = (type: string) => events.filter((each: Json) => each.usage_type === type);
    expect(of('cpu_seconds')).toEqual([
      {
        event_id: expect.stringMatching(/^use-[0-9a-f]{32}$/),
        resource_type: 'sandbox',
        resource_id: id,
        user_id: member.userId,
        account_id: member.accountId,
        project_id: member.projectId,
        usage_type: 'cpu_seconds',
        usage_quantity: 7200,
        usage_unit: 'cpu_seconds',
        resource_specs: { cpu_count: 2, memory_mb: 512 },
        event_timestamp: iso(1),
        period_start: iso(0),
        period_end: iso(1),
        unit_price: 0.000014,
        total_cost: 0.1008,
        currency: 'USD',
        metadata: { team: 'blue' },
        tags: ['charged'],
        created_at: expect.any(String),
      },
    ]);
    expect(of('ram_gb_seconds')).toMatchObject([
      { usage_quantity: 1800, usage_unit: 'gb_seconds', total_cost: 0.0081 },
    ]);
    expect(of('sandbox_storage_gb_seconds').map((each: Json) => each.event_timestamp)).toEqual([iso(2), iso(1)]);
    const count = async (query: string) => {
      const page = await get(member, `events?${query}`);
      expect([query, page.events.length]).toEqual([query, page.pagination.total]);
      return page.pagination.total;
    };
    for (const moved of [false, true]) {
      if (moved) await rollUpUsage(api.orm.em);
      expect(await count('usage_type=cpu_seconds')).toBe(1);
      expect(await count('resource_type=template')).toBe(0);
      expect(await count('resource_type=sandbox')).toBe(4);
      expect(await count(`project_id=${member.projectId}`)).toBe(4);
      expect(await count('project_id=prj-none')).toBe(0);
      expect(await count(`start=${iso(1)}`)).toBe(1);
      expect(await count(`end=${iso(1)}`)).toBe(3);
      expect(await count(`start=${iso(0.5)}&end=${iso(1.5)}`)).toBe(3);
      expect(await count(`start=${iso(0.25)}&end=${iso(0.5)}`)).toBe(0);
    }
    const pages = [await get(member, 'events?limit=3'), await get(member, 'events?limit=3&page=2')];
    expect(pages.flatMap((page) => page.events)).toEqual(events);
  });

  test('a wrong type or range is 400', async () => {
    for (const [query, code] of [
      ['usage_type=love', 'validation_failed'],
      ['resource_type=love', 'validation_failed'],
      ['start=2026-03-02&end=2026-03-01', 'invalid_date_range'],
      ['start=0001-01-01', 'invalid_date_range'],
    ]) {
      for (const path of query!.startsWith('start') ? ['events', 'sessions'] : ['events']) {
        const { status, body } = await api.send(member, 'GET', `/v1/usage/${path}?${query}`);
        expect([path, query, status, body.code]).toEqual([path, query, 400, code]);
      }
    }
  });
});

describe('a metered quota', () => {
  const allocate = (quota: Json) =>
    api.send(api.root, 'POST', '/v1/user-management/quota-allocations', { user_id: member.userId, ...quota });
  /** Usage of this month, which may be very recent. */
  const use = async (end = 'completed') => {
    const { sandbox_id: id } = (await create(member)).body.data;
    const { life: rows } = api.commands;
    const now = Date.now();
    await rows.begin(id, 1);
    await api.commands.run(id, new Date(now));
    await rows.pause(id, 'user_requested', new Date(now + 1000), true);
    if (end === 'completed') {
      await rows.beginTermination(id, 'user_requested');
      await rows.endTermination(id, 'completed', new Date(now + 1000), true);
    }
    return id as string;
  };
  const notified = async () =>
    (await api.orm.em.fork().find(Notification, { userId: member.userId }, { orderBy: { type: 'asc' } })).map(
      ({ type, title }) => [type, title],
    );

  test.each([
    ['cpu_seconds_monthly', 2, 'processor time'],
    ['ram_gb_seconds', 0.5, 'memory'],
    ['sandbox_storage_gb_seconds', 10, 'sandbox storage'],
  ])('of %s that is used up refuses a create and a resume, and shows its use', async (field, limit, name) => {
    const paused = await use('paused');
    const usedUp = {
      status: 403,
      code: 'quota_used_up',
      error: expect.stringContaining(`quota of ${name} is used up until`),
    };
    await allocate({ [field]: limit });
    for (const [method, path] of [
      ['POST', '/v1/sandboxes'],
      ['POST', `/v1/sandboxes/${paused}/resume`],
    ] as const) {
      const { status, body } = await api.send(member, method, path, {});
      expect([path, { status, code: body.code, error: body.error }]).toEqual([path, usedUp]);
    }
    const { quotas, used } = await get(member, 'quotas');
    expect(quotas[field]).toBe(limit);
    expect(used).toMatchObject({ cpu_seconds: 2, ram_gb_seconds: 0.5, traffic_gb: 0 });
    await allocate({ [field]: 1_000_000 });
    expect((await create(member)).status).toBe(201);
  });

  test('of traffic counts GB', async () => {
    const id = await use();
    await api.orm.em.fork().execute(
      `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount, unit_price)
       values (?, ?, ?, ?, 'traffic_gb', date_trunc('minute', now()), date_trunc('minute', now()) + interval '1 minute', 3221225472, 0.05)`,
      [id, member.accountId, member.userId, member.projectId],
    );
    await allocate({ traffic_gb_seconds: 4 });
    expect((await create(member)).status).toBe(201);
    await allocate({ traffic_gb_seconds: 3 });
    expect((await create(member)).body.code).toBe('quota_used_up');
    expect((await get(member, 'quotas')).used.traffic_gb).toBe(3);
    // Measured traffic counts before it is recorded as an event.
    await allocate({ traffic_gb_seconds: 5 });
    expect((await create(member)).status).toBe(201);
    await api.orm.em.fork().execute(
      `insert into sandbox_metrics_minutes (sandbox_id, sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total,
         mem_used_sum, disk_total, disk_used_sum, received_bytes, sent_bytes)
       values (?, date_trunc('minute', now()), 12, 2, 1, 1, 1, 1, 1, 1073741824, 1073741824)`,
      [id],
    );
    expect((await create(member)).body.code).toBe('quota_used_up');
    expect((await get(member, 'quotas')).used.traffic_gb).toBe(5);
  });

  test('notifies its user at four fifths and when it is used up, once a month each', async () => {
    await use();
    await allocate({ cpu_seconds_monthly: 3 });
    await warnOfQuotas(api.orm.em, new Date());
    expect(await notified()).toEqual([]);
    const { body } = await allocate({ cpu_seconds_monthly: 2, ram_gb_seconds: 0.6 });
    for (let times = 0; times < 2; times++) await warnOfQuotas(api.orm.em, new Date());
    expect(await notified()).toEqual([
      ['quota_nearly_used_up', 'Your quota of memory is nearly used up'],
      ['quota_used_up', 'Your quota of processor time is used up'],
    ]);
    expect(body.data.status).toBe('active');
  });

  test('of the account counts all users, refuses all of them, and notifies its enabled root users', async () => {
    const account = await api.addAccount('enterprise');
    const second = await api.addUser(account);
    const disabled = await api.addUser(account);
    await api.orm.em.fork().nativeUpdate(User, { userId: [second.userId, disabled.userId] }, { isRootUser: true });
    await api.orm.em.fork().nativeUpdate(User, { userId: disabled.userId }, { status: 'disabled' });
    member = await api.addUser(account);
    await use();
    const paused = await use('paused');
    const limit = (quota: Json) => api.send(account, 'POST', '/v1/user-management/quota-allocations', quota);
    await limit({ cpu_seconds_monthly: 4 });
    for (const [caller, method, path] of [
      [member, 'POST', `/v1/sandboxes/${paused}/resume`],
      [account, 'POST', '/v1/sandboxes'],
      [second, 'POST', '/v1/sandboxes'],
    ] as const) {
      const { status, body } = await api.send(caller, method, path, {});
      expect([status, body.code]).toEqual([403, 'quota_used_up']);
      expect(body.error).toContain("The account's quota of processor time is used up until");
    }
    const quotas = await get(second, 'quotas');
    expect([quotas.used.cpu_seconds, quotas.account_used.cpu_seconds]).toEqual([0, 4]);
    for (let times = 0; times < 2; times++) {
      const spent = await warnOfQuotas(api.orm.em, new Date());
      expect(spent).toContainEqual({ accountId: account.accountId, userId: null });
    }
    const em = api.orm.em.fork();
    const told = await em.find(Notification, { accountId: account.accountId });
    expect(told.map(({ userId, type, title }) => [userId, type, title]).sort()).toEqual(
      [account, second]
        .map(({ userId }) => [userId, 'quota_used_up', "The account's quota of processor time is used up"])
        .sort(),
    );
    expect((await create(await api.addUser(api.root))).status).toBe(201);
    await limit({ cpu_seconds_monthly: 5 });
    expect((await create(second)).status).toBe(201);
  });

  test('of traffic of the account counts the measured traffic of all users', async () => {
    const account = await api.addAccount('enterprise');
    member = await api.addUser(account);
    const id = await use('paused');
    await api.orm.em.fork().execute(
      `insert into sandbox_metrics_minutes (sandbox_id, sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total,
         mem_used_sum, disk_total, disk_used_sum, received_bytes, sent_bytes)
       values (?, date_trunc('minute', now()), 12, 2, 1, 1, 1, 1, 1, 1073741824, 1073741824)`,
      [id],
    );
    const limit = (gb: number) =>
      api.send(account, 'POST', '/v1/user-management/quota-allocations', { traffic_gb_seconds: gb });
    await limit(2.5);
    expect((await create(account)).status).toBe(201);
    await limit(2);
    expect((await create(account)).body.code).toBe('quota_used_up');
    expect((await get(account, 'quotas')).account_used.traffic_gb).toBe(2);
  });

  test('of other users, or without a limit, refuses nothing', async () => {
    await use();
    await allocate({ template_storage_gb: 1, concurrent_sandboxes: 5 });
    expect((await create(member)).status).toBe(201);
    expect((await create(await api.addUser(api.root))).status).toBe(201);
  });
});
