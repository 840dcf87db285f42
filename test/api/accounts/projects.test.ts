import type { AccountId, UserId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
let counter = 0;
beforeAll(async () => {
  api = await startApi({ planName: 'team' });
});
beforeEach(async () => {
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

const make = async (body: Json, caller = member): Promise<Json> => {
  const reply = await api.send(caller, 'POST', '/v1/projects', body);
  expect(reply.status).toBe(201);
  return reply.body.data;
};
const sandbox = async (caller: Caller, body: Json = {}): Promise<string> =>
  (await api.send(caller, 'POST', '/v1/sandboxes', body)).body.data.sandbox_id;
const defaults = async (userId: UserId) =>
  (await api.orm.em
    .fork()
    .execute('select project_id from projects where owner_user_id = ? and is_default', [userId])) as Json[];

describe('the limit of the plan', () => {
  const countProjects = async (accountId: AccountId) =>
    (await api.orm.em.fork().execute('select 1 from projects where account_id = ?', [accountId])).length;

  test('concurrent creates of an account’s users make as many projects as its plan allows', async () => {
    const root = await api.addAccount('hobby');
    const user = await api.addUser(root);
    await api.orm.em.fork().execute(
      `insert into projects (project_id, account_id, owner_user_id, name)
       select 'prj-' || ? || n, ?, ?, 'made ' || n from generate_series(1, 94) n`,
      [root.accountId, root.accountId, root.userId],
    );
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        api.send(n % 2 === 0 ? root : user, 'POST', '/v1/projects', { name: `more ${n}` }),
      ),
    );
    const refused = replies.filter(({ status }) => status !== 201);
    for (const { status, body } of refused) expect([status, body.code]).toEqual([400, 'project_limit_reached']);
    expect([refused.length, await countProjects(root.accountId)]).toEqual([6, 100]);

    const made = replies.find(({ status }) => status === 201)!.body.data;
    expect((await api.send(root, 'DELETE', `/v1/projects/${made.project_id}`)).status).toBe(200);
    expect((await api.send(root, 'POST', '/v1/projects', { name: 'after a deletion' })).status).toBe(201);
  });

  test('a user without a project gets a first one beyond it', async () => {
    const root = await api.addAccount('hobby');
    const user = await api.addUser(root);
    const em = api.orm.em.fork();
    await em.execute('delete from projects where owner_user_id = ?', [user.userId]);
    await em.execute(
      `insert into projects (project_id, account_id, owner_user_id, name)
       select 'prj-' || ? || n, ?, ?, 'made ' || n from generate_series(1, 99) n`,
      [root.accountId, root.accountId, root.userId],
    );
    expect((await make({ name: 'first' }, user)).is_default).toBe(true);
    expect((await api.send(user, 'POST', '/v1/projects', { name: 'second' })).body.code).toBe('project_limit_reached');
  });
});

describe('create', () => {
  test('a project with every field', async () => {
    const before = Date.now();
    const project = await make({ name: ' Data (v2) ', description: 'what it is for' });
    expect(project).toMatchObject({
      project_id: expect.stringMatching(/^prj-/),
      name: 'Data (v2)',
      description: 'what it is for',
      owner_user_id: member.userId,
      status: 'active',
      is_default: false,
      sandbox_count: 0,
    });
    expect(project.owner).toBeUndefined();
    for (const name of ['created_at', 'updated_at']) {
      expect(Math.abs(Date.parse(project[name]) - before)).toBeLessThan(60_000);
    }
  });

  test('the account root sees the owner', async () => {
    const project = await make({ name: `root ${counter++}` }, api.root);
    expect(project.owner).toMatchObject({ user_id: api.root.userId, display_name: 'Root' });
  });

  test('the first project of a user is always the default, and a new default replaces it', async () => {
    await api.orm.em.fork().execute('delete from projects where owner_user_id = ?', [member.userId]);
    const first = await make({ name: 'First', is_default: false });
    expect(first.is_default).toBe(true);
    const second = await make({ name: 'Second', is_default: true });
    expect(second.is_default).toBe(true);
    expect(await defaults(member.userId)).toEqual([{ project_id: second.project_id }]);
  });

  test('exactly one of many concurrent first projects is the default', async () => {
    await api.orm.em.fork().execute('delete from projects where owner_user_id = ?', [member.userId]);
    await Promise.all(Array.from({ length: 8 }, (_, n) => make({ name: `P${n}`, is_default: n % 2 === 0 })));
    expect(await defaults(member.userId)).toHaveLength(1);
  });

  test.each([
    [{}, 'validation_failed'],
    [{ name: null }, 'validation_failed'],
    [{ name: 7 }, 'validation_failed'],
    [{ name: '' }, 'invalid_name'],
    [{ name: '   ' }, 'invalid_name'],
    [{ name: 'x'.repeat(65) }, 'invalid_name'],
    [{ name: 'bell\u0007' }, 'invalid_name'],
    [{ name: 'x\ny' }, 'invalid_name'],
    [{ name: 'ok', description: 'x'.repeat(65_537) }, 'validation_failed'],
    [{ name: 'ok', is_default: 'yes' }, 'validation_failed'],
    [{ name: 'default' }, 'project_name_taken'],
  ])('%j is 400 %s', async (body, code) => {
    const before = await api.counts();
    const reply = await api.send(member, 'POST', '/v1/projects', body);
    expect([reply.status, reply.body.code]).toEqual([400, code]);
    expect(await api.counts()).toEqual(before);
  });

  test('a description has up to 64 KiB', async () => {
    const description = '\u00e9'.repeat(65_536);
    const made = await api.send(member, 'POST', '/v1/projects', { name: `Long ${counter++}`, description });
    expect(made.body.data.description).toBe(description);
    const url = `/v1/projects/${made.body.data.project_id}`;
    const escaped = `{"description":"${'\\u00e8'.repeat(65_536)}"}`;
    const changed = await api.send(member, 'PUT', url, undefined, {
      rawBody: escaped,
      contentType: 'application/json',
    });
    expect(changed.body.data.description).toBe('\u00e8'.repeat(65_536));
  });

  test('concurrent creates with one name make one project', async () => {
    const replies = await Promise.all(
      Array.from({ length: 6 }, () => api.send(member, 'POST', '/v1/projects', { name: 'Same' })),
    );
    expect(replies.map((reply) => reply.status).sort()).toEqual([201, 400, 400, 400, 400, 400]);
  });
});

test('list: own ones for a user, the account for its root, who may filter by owner', async () => {
  const one = await make({ name: 'One' });
  const mine = await api.send(member, 'GET', '/v1/projects');
  expect(mine.body.data.projects.map((item: Json) => item.name)).toEqual(['One', 'Default']);
  expect(mine.body.data.pagination).toEqual({
    page: 1,
    limit: 50,
    total: 2,
    total_pages: 1,
    offset: 0,
    next_cursor: null,
  });
  const all = await api.send(api.root, 'GET', '/v1/projects?limit=100');
  expect(all.body.data.projects.length).toBeGreaterThan(2);
  const filtered = await api.send(api.root, 'GET', `/v1/projects?owner_user_id=${member.userId}&limit=1`);
  expect(filtered.body.data.projects).toMatchObject([
    { project_id: one.project_id, owner: { user_id: member.userId } },
  ]);
  expect(filtered.body.data.pagination.total).toBe(2);
  const refused = await api.send(member, 'GET', `/v1/projects?owner_user_id=${api.root.userId}`);
  expect([refused.status, refused.body.code]).toEqual([403, 'root_required']);
});

describe('update', () => {
  test('name, description and default, each alone', async () => {
    const { project_id: id } = await make({ name: 'Before' });
    const put = (body: Json) => api.send(member, 'PUT', `/v1/projects/${id}`, body);
    expect((await put({ name: 'After' })).body.data).toMatchObject({ name: 'After', description: '' });
    expect((await put({ description: 'new' })).body.data).toMatchObject({ name: 'After', description: 'new' });
    const made = await put({ is_default: true, status: 'archived' });
    expect(made.body.data).toMatchObject({ is_default: true, status: 'active' });
    expect(made.body.message).toEqual(expect.any(String));
    expect(await defaults(member.userId)).toEqual([{ project_id: id }]);
    expect((await put({})).status).toBe(200);
  });

  test('after many concurrent changes of the default and deletions, exactly one is the default', async () => {
    const made: string[] = [];
    for (let n = 0; n < 6; n++) made.push((await make({ name: `race ${n}` })).project_id);
    const replies = await Promise.all(
      made.flatMap((id) => [
        api.send(member, 'PUT', `/v1/projects/${id}`, { is_default: true }),
        api.send(member, 'DELETE', `/v1/projects/${id}`),
      ]),
    );
    for (const { status } of replies) expect([200, 400, 404]).toContain(status);
    expect(await defaults(member.userId)).toHaveLength(1);
  });

  test('the only default cannot be unset; a used name is refused', async () => {
    await make({ name: 'Other' });
    const put = (body: Json) => api.send(member, 'PUT', `/v1/projects/${member.projectId}`, body);
    expect((await put({ is_default: false })).body.code).toBe('only_default_project');
    expect((await put({ name: 'OTHER' })).body.code).toBe('project_name_taken');
    expect((await put({ name: ' ' })).body.code).toBe('invalid_name');
    const read = await api.send(member, 'GET', `/v1/projects/${member.projectId}`);
    expect(read.body.data).toMatchObject({ name: 'Default', is_default: true });
  });

  test('the root changes a project of another user of the account', async () => {
    const { project_id: id } = await make({ name: 'Theirs' });
    const reply = await api.send(api.root, 'PUT', `/v1/projects/${id}`, { is_default: true });
    expect(reply.body.data).toMatchObject({ is_default: true, owner: { user_id: member.userId } });
    expect(await defaults(member.userId)).toEqual([{ project_id: id }]);
    expect(await defaults(api.root.userId)).toHaveLength(1);
  });
});

describe('delete', () => {
  test('an empty project can be deleted, even if deleted sandboxes were in it', async () => {
    const { project_id: id } = await make({ name: 'Short' });
    const inside = await sandbox(member, { project_id: id });
    const full = await api.send(member, 'DELETE', `/v1/projects/${id}`);
    expect([full.status, full.body.code]).toEqual([400, 'project_not_empty']);
    await api.send(member, 'POST', `/v1/sandboxes/${inside}/terminate`);
    expect((await api.send(member, 'DELETE', `/v1/projects/${id}`)).body.code).toBe('project_not_empty');
    await api.send(member, 'DELETE', `/v1/sandboxes/${inside}`);
    const gone = await api.send(member, 'DELETE', `/v1/projects/${id}`);
    expect([gone.status, gone.body.data]).toEqual([200, { project_id: id, deleted: true }]);
    expect((await api.send(member, 'GET', `/v1/projects/${id}`)).status).toBe(404);
  });

  test('the default project cannot be deleted', async () => {
    const reply = await api.send(member, 'DELETE', `/v1/projects/${member.projectId}`);
    expect([reply.status, reply.body.code]).toEqual([400, 'only_default_project']);
  });
});

describe('sandboxes of a project', () => {
  test('the list, with every field of its slimmer item, and its count', async () => {
    const { project_id: id } = await make({ name: 'Work' });
    const inside = await sandbox(member, { project_id: id, name: 'inside', description: 'd', cpu_count: 1 });
    await sandbox(member, { name: 'outside' });
    const reply = await api.send(member, 'GET', `/v1/projects/${id}/sandboxes`);
    const full = (await api.send(member, 'GET', `/v1/sandboxes/${inside}`)).body.data;
    expect(reply.body.data.sandboxes).toEqual([
      {
        id: inside,
        name: 'inside',
        description: 'd',
        template_id: full.template_id,
        owner_user_id: member.userId,
        project_id: id,
        cpu_count: 1,
        memory_mb: 512,
        storage_gb: full.storage_gb,
        status: 'running',
        started_at: full.started_at,
        stopped_at: null,
        created_at: full.created_at,
        updated_at: full.updated_at,
      },
    ]);
    expect(reply.body.data.pagination).toEqual({
      page: 1,
      limit: 50,
      total: 1,
      total_pages: 1,
      offset: 0,
      next_cursor: null,
    });
    await api.send(member, 'POST', `/v1/sandboxes/${inside}/terminate`);
    const after = await api.send(member, 'GET', `/v1/projects/${id}/sandboxes?status=terminated`);
    expect(after.body.data.sandboxes[0].stopped_at).toEqual(expect.any(String));
    expect((await api.send(member, 'GET', `/v1/projects/${id}/sandboxes?status=running`)).body.data.sandboxes).toEqual(
      [],
    );
    expect((await api.send(member, 'GET', `/v1/projects/${id}`)).body.data.sandbox_count).toBe(1);
  });

  test('add, evict and switch move a running one, with one event each', async () => {
    const { project_id: work } = await make({ name: 'Work' });
    const id = await sandbox(member);
    const added = await api.send(member, 'POST', `/v1/projects/${work}/sandboxes/${id}/add`);
    expect(added.body.data).toEqual({
      sandbox_id: id,
      project_id: work,
      previous_project: member.projectId,
      action: 'added_to_project',
    });
    expect(added.body.message).toEqual(expect.any(String));
    const again = await api.send(member, 'POST', `/v1/projects/${work}/sandboxes/${id}/add`);
    expect(again.body.data.previous_project).toBe(work);

    const evicted = await api.send(member, 'POST', `/v1/projects/${work}/sandboxes/${id}/evict`);
    expect(evicted.body.data).toEqual({
      sandbox_id: id,
      project_id: member.projectId,
      previous_project: work,
      action: 'evicted_to_default_project',
    });
    expect((await api.send(member, 'POST', `/v1/projects/${work}/sandboxes/${id}/evict`)).status).toBe(404);

    const switched = await api.send(member, 'POST', `/v1/sandboxes/${id}/switch-project`, { project_id: work });
    expect([switched.status, switched.body.data, typeof switched.body.message]).toEqual([200, undefined, 'string']);
    expect((await api.send(member, 'GET', `/v1/sandboxes/${id}`)).body.data).toMatchObject({
      project_id: work,
      project_name: 'Work',
    });
    const recorded = (await api.orm.em
      .fork()
      .execute(
        "select sequence, data from events where object_id = ? and type = 'sandbox.project_switched' order by 1",
        [id],
      )) as Json[];
    expect(recorded.map((event) => event.data.project_id)).toEqual([work, member.projectId, work]);
    expect(recorded.map((event) => event.sequence)).toEqual([3, 4, 5]);
  });

  test('a sandbox that does not run cannot be moved', async () => {
    const { project_id: work } = await make({ name: 'Work' });
    const id = await sandbox(member, { project_id: work });
    await api.send(member, 'POST', `/v1/sandboxes/${id}/pause`);
    for (const [url, body] of [
      [`/v1/projects/${member.projectId}/sandboxes/${id}/add`, undefined],
      [`/v1/projects/${work}/sandboxes/${id}/evict`, undefined],
      [`/v1/sandboxes/${id}/switch-project`, { project_id: member.projectId }],
    ] as const) {
      const reply = await api.send(member, 'POST', url, body);
      expect([reply.status, reply.body.code]).toEqual([409, 'sandbox_not_running']);
    }
    expect((await api.send(member, 'GET', `/v1/sandboxes/${id}`)).body.data.project_id).toBe(work);
  });

  test("the root may put a user's sandbox into any project of that user; another user's is 403", async () => {
    const { project_id: work } = await make({ name: `Work of the member ${counter++}` });
    const id = await sandbox(member);
    const url = `/v1/projects/${work}/sandboxes/${id}/add`;
    expect((await api.send(api.root, 'POST', url)).body.data.project_id).toBe(work);
    for (const [path, body] of [
      [`/v1/projects/${api.root.projectId}/sandboxes/${id}/add`, undefined],
      [`/v1/sandboxes/${id}/switch-project`, { project_id: api.root.projectId }],
    ] as const) {
      const refused = await api.send(api.root, 'POST', path, body);
      expect([refused.status, refused.body.code]).toEqual([403, 'project_of_another_user']);
    }
    expect((await api.send(member, 'GET', `/v1/sandboxes/${id}`)).body.data.project_id).toBe(work);
    const unseen = await api.send(member, 'POST', `/v1/projects/${api.root.projectId}/sandboxes/${id}/add`);
    expect([unseen.status, unseen.body.code]).toEqual([404, 'not_found']);
    const own = await sandbox(api.root);
    const given = await api.send(api.root, 'POST', `/v1/projects/${work}/sandboxes/${own}/add`);
    expect([given.status, given.body.code]).toEqual([403, 'project_of_another_user']);
  });

  test("the root's evict of a user's sandbox puts it into that user's default project", async () => {
    const { project_id: work } = await make({ name: `Left by the member ${counter++}` });
    const id = await sandbox(member, { project_id: work });
    const reply = await api.send(api.root, 'POST', `/v1/projects/${work}/sandboxes/${id}/evict`);
    expect(reply.body.data).toMatchObject({ project_id: member.projectId, action: 'evicted_to_default_project' });
  });

  test.each([[{}], [{ project_id: null }], [{ project_id: 7 }]])('switch-project with %j is 400', async (body) => {
    const id = await sandbox(member);
    const reply = await api.send(member, 'POST', `/v1/sandboxes/${id}/switch-project`, body);
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
  });
});
