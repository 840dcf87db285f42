import { Notification } from '../../../db/accounts/notification.entity.ts';
import { newId } from '../../../db/core/new-id.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
beforeEach(async () => {
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

/** Adds notifications and returns their ids, newest first. */
async function add(to: Caller, count: number, fields: Partial<Notification> = {}): Promise<string[]> {
  const em = api.orm.em.fork();
  const ids = Array.from({ length: count }, () => newId('notification'));
  ids.forEach((id, index) => {
    em.create(Notification, {
      id,
      accountId: to.accountId,
      userId: to.userId,
      title: `Title ${index}`,
      message: 'A message',
      type: 'sandbox_timeout',
      category: 'sandbox',
      relatedEntityType: 'sandbox',
      relatedEntityId: 'sbx-1',
      createdAt: new Date(Date.UTC(2026, 0, 1, 0, 0, count - index)),
      ...fields,
    });
  });
  await em.flush();
  return ids;
}

const get = (query: string, caller = member) => api.send(caller, 'GET', `/v1/notifications${query}`);
const patch = (path: string, body?: Json, caller = member) =>
  api.send(caller, 'PATCH', `/v1/notifications/${path}`, body);
const unread = async (caller = member) => (await get('', caller)).body.data.unread_count;

describe('list', () => {
  test('shows the newest first, with every field', async () => {
    const [newest, oldest] = await add(member, 2);
    const { status, body } = await get('');
    expect(status).toBe(200);
    expect(body.data.notifications.map((each: Json) => each.id)).toEqual([newest, oldest]);
    expect(body.data.notifications[0]).toEqual({
      id: newest,
      user_id: member.userId,
      title: 'Title 0',
      message: 'A message',
      type: 'sandbox_timeout',
      is_read: false,
      category: 'sandbox',
      created_at: '2026-01-01T00:00:02.000Z',
    });
    expect(body.data.pagination).toEqual({
      page: 1,
      limit: 50,
      total: 2,
      total_pages: 1,
      offset: 0,
      next_cursor: null,
    });
    expect(body.data.unread_count).toBe(2);
  });

  test('filters by read and by type; the unread count ignores filters and pages', async () => {
    const [seen] = await add(member, 3);
    await add(member, 1, { type: 'sandbox_failed' });
    await patch(`${seen}/read`);
    const totals = async (query: string) => {
      const { data } = (await get(query)).body;
      return [data.pagination.total, data.unread_count];
    };
    expect(await totals('?read=true')).toEqual([1, 3]);
    expect(await totals('?read=false')).toEqual([3, 3]);
    expect(await totals('?type=sandbox_failed')).toEqual([1, 3]);
    expect(await totals('?type=sandbox')).toEqual([0, 3]);
    const page = (await get('?page_size=1&page=2')).body.data;
    expect([page.notifications.length, page.pagination.offset, page.unread_count]).toEqual([1, 1, 3]);
    expect((await get('?limit=500')).body.data.pagination.limit).toBe(100);
  });

  test.each([
    ['?limit=-1', 'invalid_pagination'],
    ['?read=perhaps', 'validation_failed'],
  ])('%s is 400 %s', async (query, code) => {
    const { status, body } = await get(query);
    expect([status, body.code]).toEqual([400, code]);
  });

  test('a root user does not see the notifications of other users', async () => {
    const [id] = await add(member, 1);
    const ids = (await get('', api.root)).body.data.notifications.map((each: Json) => each.id);
    expect(ids).not.toContain(id);
    expect((await get(`/${id}`, api.root)).status).toBe(404);
    expect((await patch(`${id}/read`, undefined, api.root)).status).toBe(404);
    expect((await api.send(api.root, 'DELETE', `/v1/notifications/${id}`)).status).toBe(404);
    expect(await unread()).toBe(1);
  });
});

test('get names the object that the notification is about, and does not mark it as read', async () => {
  const [id] = await add(member, 1);
  const { status, body } = await get(`/${id}`);
  expect(status).toBe(200);
  expect(body.data).toMatchObject({ id, is_read: false, related_entity_type: 'sandbox', related_entity_id: 'sbx-1' });
  expect(await unread()).toBe(1);
  expect((await get('/ntf-none')).body.code).toBe('not_found');
});

test('a notification is marked as read and as unread, repeatedly', async () => {
  const [id] = await add(member, 1);
  for (const [state, isRead] of [
    ['read', true],
    ['read', true],
    ['unread', false],
  ] as const) {
    const { status, body } = await patch(`${id}/${state}`);
    expect([status, body.data, body.message]).toEqual([
      200,
      { notification_id: id, is_read: isRead },
      `The notification is marked as ${state}`,
    ]);
    expect(await unread()).toBe(isRead ? 0 : 1);
  }
});

test('read-all returns the number of unread ones', async () => {
  const [seen] = await add(member, 3);
  await patch(`${seen}/read`);
  expect((await patch('read-all')).body.data).toEqual({ marked_count: 2, is_read: true });
  expect((await patch('read-all')).body.data).toEqual({ marked_count: 0, is_read: true });
});

test('a notification is deleted once', async () => {
  const [id] = await add(member, 2);
  const remove = () => api.send(member, 'DELETE', `/v1/notifications/${id}`);
  expect((await remove()).body.data).toEqual({ notification_id: id, deleted: true });
  expect((await remove()).body.code).toBe('not_found');
  expect(await unread()).toBe(1);
});

test("delete all removes the caller's own", async () => {
  const other = await api.addUser(api.root);
  await add(member, 2);
  await add(other, 1);
  expect((await api.send(member, 'DELETE', '/v1/notifications')).body.data).toEqual({ deleted_count: 2 });
  expect([await unread(), await unread(other)]).toEqual([0, 1]);
});

describe('bulk', () => {
  test('handles those of the caller, and ignores others and repetitions', async () => {
    const other = await api.addUser(api.root);
    const [foreign] = await add(other, 1);
    const [first, second, third] = await add(member, 3);
    const ids = [second, foreign, 'ntf-"none\\', first, first];
    const read = (await patch('bulk-read', { notification_ids: ids })).body;
    expect(read.data).toEqual({ notification_ids: [second, first], marked_count: 2, is_read: true });
    expect(read.message).toBe('Notifications marked as read: 2');
    expect([await unread(), await unread(other)]).toEqual([1, 1]);
    const back = (await patch('bulk-unread', { notification_ids: [first] })).body;
    expect(back.data).toEqual({ notification_ids: [first], marked_count: 1, is_read: false });
    const gone = await api.send(member, 'POST', '/v1/notifications/bulk-delete', {
      notification_ids: [foreign, third, second],
    });
    expect(gone.body.data).toEqual({ notification_ids: [third, second], deleted_count: 2 });
    expect([await unread(), await unread(other)]).toEqual([1, 1]);
  });

  test.each([
    [{}],
    [{ notification_ids: [] }],
    [{ notification_ids: null }],
    [{ notification_ids: 'ntf-1' }],
    [{ notification_ids: [''] }],
    [{ notification_ids: [1] }],
    [{ notification_ids: Array(101).fill('ntf-1') }],
  ])('%j is 400 and changes nothing', async (body) => {
    await add(member, 1);
    for (const [method, path] of [
      ['PATCH', 'bulk-read'],
      ['PATCH', 'bulk-unread'],
      ['POST', 'bulk-delete'],
    ] as const) {
      const reply = await api.send(member, method, `/v1/notifications/${path}`, body);
      expect([path, reply.status, reply.body.code]).toEqual([path, 400, 'validation_failed']);
    }
    expect(await unread()).toBe(1);
  });
});

test('the unread count is exact after concurrent marks and deletes', async () => {
  const ids = await add(member, 40);
  await Promise.all([
    ...ids.slice(0, 20).map((id) => patch(`${id}/read`)),
    ...ids.slice(10, 20).map((id) => api.send(member, 'DELETE', `/v1/notifications/${id}`)),
    patch('bulk-read', { notification_ids: ids.slice(15, 30) }),
    ...[1, 2].map(() => patch('bulk-read', { notification_ids: ids.slice(25, 30) })),
  ]);
  const { data } = (await get('?read=false&limit=100')).body;
  expect([data.unread_count, data.pagination.total]).toEqual([10, 10]);
});
