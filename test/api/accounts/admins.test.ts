import { User } from '../../../db/accounts/user.entity.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const users = '/v1/user-management/users';
let api: TestApi;
/** Operates the platform from an account in which they are not root. */
let admin: Caller;
let root: Caller;
let member: Caller;

beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
beforeEach(async () => {
  admin = await api.addUser(api.root);
  await setRole(admin, 'admin');
  root = await api.addAccount('hobby');
  member = await api.addUser(root);
});
afterAll(() => api.stop());

const setRole = ({ userId }: Caller, role: User['role']) => api.orm.em.fork().nativeUpdate(User, { userId }, { role });
const readRole = async ({ userId }: Caller) => {
  const { role, status } = await api.orm.em.fork().findOneOrFail(User, { userId });
  return `${role} ${status}`;
};

describe('objects of another account, for an admin', () => {
  test('look the same as for its root user, owners included', async () => {
    const { sandbox_id: id } = (await api.send(member, 'POST', '/v1/sandboxes', {})).body.data;
    for (const path of [`/v1/sandboxes/${id}`, `/v1/projects/${member.projectId}`, `/v1/api-keys/${member.keyId}`]) {
      const [mine, theirs] = [await api.send(admin, 'GET', path), await api.send(root, 'GET', path)];
      expect([path, mine.status]).toEqual([path, 200]);
      const {
        uptime: _uptime,
        remaining_seconds: _remaining,
        total_running_seconds: _running,
        ...fields
      } = mine.body.data;
      expect(theirs.body.data).toMatchObject(fields);
    }
    const project = (await api.send(admin, 'GET', `/v1/projects/${member.projectId}`)).body.data;
    expect(project).toMatchObject({ owner: { user_id: member.userId }, account_owner: { user_id: root.userId } });
    expect((await api.send(member, 'GET', `/v1/projects/${member.projectId}`)).body.data).not.toHaveProperty('owner');
  });

  test('are changed within the limits of that account, and its audit log has the actor', async () => {
    const { sandbox_id: id } = (await api.send(member, 'POST', '/v1/sandboxes', {})).body.data;
    const tooLong = await api.send(admin, 'POST', `/v1/sandboxes/${id}/timeout`, { timeout: 80_000 });
    expect(tooLong.body.code).toBe('plan_limit_exceeded');
    expect((await api.send(admin, 'PUT', `${users}/${member.userId}`, { status: 'disabled' })).status).toBe(200);
    expect((await api.send(admin, 'POST', `/v1/sandboxes/${id}/pause`)).body.data.status).toBe('paused');
    const events: Json[] = (await api.send(root, 'GET', '/v1/audit-events')).body.data.events;
    expect(events.map((event) => [event.action, event.object_id, event.actor_user_id, event.account_id])).toEqual([
      ['pauseSandbox', id, admin.userId, root.accountId],
      ['updateUser', member.userId, admin.userId, root.accountId],
      ['createSandbox', id, member.userId, root.accountId],
    ]);
  });

  test.each(['constructor', 'toString', '__proto__', 'valueOf_1'])('the id %j finds no object', async (id) => {
    for (const path of [`/v1/sandboxes/${id}`, `/v1/projects/${id}`, `${users}/${id}`]) {
      expect([path, (await api.send(admin, 'GET', path)).status]).toEqual([path, 404]);
    }
  });

  test('are not mixed with those of other accounts', async () => {
    const { sandbox_id: id } = (await api.send(member, 'POST', '/v1/sandboxes', {})).body.data;
    const body = { project_id: admin.projectId };
    expect((await api.send(admin, 'POST', `/v1/sandboxes/${id}/switch-project`, body)).body.code).toBe('not_found');
    expect((await api.send(admin, 'POST', `/v1/projects/${admin.projectId}/sandboxes/${id}/add`)).status).toBe(404);
    expect((await api.send(admin, 'POST', '/v1/sandboxes', { project_id: member.projectId })).status).toBe(404);
    expect((await api.send(admin, 'GET', '/v1/sandboxes/sbx-none')).status).toBe(404);
    expect((await api.send(admin, 'GET', `${users}/usr-none`)).status).toBe(404);
  });
});

test('an admin who is not root changes only named objects of their own account', async () => {
  const colleague = await api.addUser(api.root);
  expect((await api.send(admin, 'PUT', '/v1/user-management/account', { display_name: 'Mine' })).status).toBe(403);
  expect((await api.send(admin, 'GET', users)).body.code).toBe('root_required');
  expect((await api.send(admin, 'PUT', `${users}/${colleague.userId}`, { role: 'admin' })).status).toBe(200);
});

describe('lists', () => {
  const listIds = async (caller: Caller, query: string): Promise<string[]> =>
    (await api.send(caller, 'GET', `/v1/projects?limit=100${query}`)).body.data.projects.map(
      (each: Json) => each.project_id,
    );

  test('show an admin their own, one account, or all of them', async () => {
    const other = await api.addAccount();
    expect(await listIds(admin, '')).toEqual([admin.projectId]);
    expect((await listIds(admin, `&account_id=${root.accountId}`)).sort()).toEqual(
      [root.projectId, member.projectId].sort(),
    );
    const all = await listIds(admin, '&account_id=all');
    for (const { projectId } of [admin, api.root, root, member, other]) expect(all).toContain(projectId);
    const listed = await api.send(admin, 'GET', `/v1/projects?account_id=${other.accountId}`);
    expect(listed.body.data.projects).toMatchObject([{ account_owner: { user_id: other.userId } }]);
    for (const path of [
      ...['/v1/sandboxes', '/v1/api-keys', '/v1/templates', '/v1/usage/quota-requests', users, '/v1/audit-events'],
      ...['/v1/usage/summary', '/v1/usage/analytics', '/v1/usage/sessions', '/v1/usage/events'],
      ...['/v1/user-management/quota-requests', '/v1/user-management/quota-allocations'],
    ]) {
      for (const account of ['all', root.accountId, admin.accountId]) {
        expect([path, (await api.send(admin, 'GET', `${path}?account_id=${account}`)).status]).toEqual([path, 200]);
      }
      expect((await api.send(root, 'GET', `${path}?account_id=${admin.accountId}`)).body.code).toBe('admin_required');
      expect((await api.send(root, 'GET', `${path}?account_id=all`)).body.code).toBe('admin_required');
    }
  });

  test('a missing account is 404; every caller may name their own account, which gives no additional access', async () => {
    for (const account of ['acc-none', 'nonsense', member.userId]) {
      const reply = await api.send(admin, 'GET', `/v1/projects?account_id=${account}`);
      expect([account, reply.status]).toEqual([account, 404]);
    }
    expect(await listIds(member, `&account_id=${member.accountId}`)).toEqual([member.projectId]);
  });
});

describe('the last enabled admin', () => {
  beforeEach(() => api.orm.em.fork().nativeUpdate(User, { userId: { $ne: admin.userId } }, { role: 'user' }));

  test('cannot be disabled, deleted or made an ordinary user, by themselves or by a root user', async () => {
    const path = `${users}/${admin.userId}`;
    const replies = [
      await api.send(admin, 'PUT', path, { role: 'user' }),
      await api.send(api.root, 'PUT', path, { status: 'disabled' }),
      await api.send(api.root, 'DELETE', path),
    ];
    expect(replies.map(({ status, body }) => [status, body.code])).toEqual(Array(3).fill([400, 'last_admin']));
    expect(await readRole(admin)).toBe('admin enabled');
    const own = await api.send(admin, 'DELETE', path);
    expect(own.body.code).toBe('own_deletion');
  });

  test('stays also when the last two, of two accounts, are disabled at the same time', async () => {
    await setRole(root, 'admin');
    const replies = await Promise.all([
      api.send(admin, 'PUT', `${users}/${root.userId}`, { role: 'user' }),
      api.send(root, 'PUT', `${users}/${admin.userId}`, { role: 'user' }),
      api.send(api.root, 'PUT', `${users}/${admin.userId}`, { status: 'disabled' }),
    ]);
    expect(replies.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    const left = await api.orm.em.fork().count(User, { role: 'admin', status: 'enabled' });
    expect(left).toBe(1);
  });
});
