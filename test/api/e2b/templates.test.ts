import { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';
import { sendE2b } from './e2b-client.ts';

let api: TestApi;
let member: Caller;
let stranger: Caller;
beforeAll(async () => {
  api = await startApi();
  member = await api.addUser(api.root);
  stranger = await api.addAccount();
});
afterAll(() => api.stop());

const send = (method: string, path: string, caller = member) => sendE2b(api, caller, method, path);

const add = (fields: Partial<Template> = {}, of = member): Promise<TemplateId> =>
  api.addTemplate({ accountId: of.accountId, ownerUserId: of.userId, visibility: 'private', ...fields });

test('the list has built-in templates, those of the caller and public ones', async () => {
  const [mine, shared, foreign] = [
    await add({ name: 'mine' }),
    await add({ visibility: 'public' }, stranger),
    await add({}, stranger),
  ];
  const { status, body } = await send('GET', '/templates?teamID=any');
  expect(status).toBe(200);
  const ids = body.map((each: Json) => each.templateID);
  expect(ids).toEqual(expect.arrayContaining([mine, shared]));
  expect(ids).not.toContain(foreign);
  expect(body.flatMap((each: Json) => each.names)).toEqual(expect.arrayContaining(['base', 'code-interpreter-v1']));
  const ofStranger = body.find((each: Json) => each.templateID === shared);
  expect(ofStranger.createdBy).toEqual({ id: stranger.userId, email: expect.not.stringContaining('@') });
  const { createdAt, updatedAt } = await api.orm.em.fork().findOneOrFail(Template, { templateId: mine });
  expect(body.find((each: Json) => each.templateID === mine)).toEqual({
    templateID: mine,
    buildID: '00000000-0000-0000-0000-000000000000',
    buildCount: 1,
    buildStatus: 'ready',
    aliases: ['mine'],
    names: ['mine'],
    public: false,
    cpuCount: 1,
    memoryMB: 256,
    diskSizeMB: expect.any(Number),
    envdVersion: '0.6.4',
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
    createdBy: { id: member.userId, email: expect.stringContaining('@') },
    lastSpawnedAt: null,
    spawnCount: 0,
  });
});

test.each([
  [{ status: 'available' }, 'ready'],
  [{ status: 'pending', image: null }, 'waiting'],
  [{ status: 'building', image: null }, 'building'],
  [{ status: 'pushing', image: null }, 'building'],
  [{ status: 'failed', image: null }, 'error'],
] as const)('a template with %j is %s', async (fields, buildStatus) => {
  const { body } = await send('GET', `/templates/${await add(fields as Partial<Template>)}`);
  expect(body.builds.map((each: Json) => each.status)).toEqual([buildStatus]);
});

test('a template is read by its id and by its names', async () => {
  const id = await add({ name: 'by-name' });
  for (const name of [id, 'by-name']) {
    const { body } = await send('GET', `/templates/${name}`);
    expect(body).toMatchObject({ templateID: id, names: ['by-name'], public: false });
    expect(body.builds).toHaveLength(1);
  }
  expect((await send('GET', '/templates/base')).body).toMatchObject({ names: ['base'], public: true });
  expect((await send('GET', '/templates/code-interpreter-v1')).body.names).toEqual(['code-interpreter-v1']);
});

test('an alias says which template it is', async () => {
  const id = await add({ name: 'an-alias' });
  expect(await send('GET', '/templates/aliases/an-alias')).toMatchObject({ body: { templateID: id, public: false } });
  const { body } = await send('GET', '/templates/aliases/code-interpreter-v1');
  const builtin = await api.orm.em.fork().findOneOrFail(Template, { name: 'code-interpreter' });
  expect(body).toEqual({ templateID: builtin.templateId, public: true });
});

test('a template is deleted by its id or by its name', async () => {
  const [first, second] = [await add({ name: 'to-delete' }), await add()];
  for (const name of ['to-delete', second]) expect((await send('DELETE', `/templates/${name}`)).status).toBe(204);
  for (const name of [first, second]) expect((await send('GET', `/templates/${name}`)).status).toBe(404);
  expect((await send('DELETE', '/templates/to-delete')).status).toBe(404);
});

test('built-in templates, those in use and those of others stay', async () => {
  expect((await send('DELETE', '/templates/base')).status).toBe(403);
  const used = await add();
  const made = await sendE2b(api, member, 'POST', '/v2/sandboxes', { body: { templateID: used } });
  expect(made.status).toBe(201);
  const { status, body } = await send('DELETE', `/templates/${used}`);
  expect([status, body.message]).toEqual([409, expect.stringContaining('are made from this template')]);
  const foreign = await add({ name: 'foreign' }, stranger);
  for (const [method, path] of [
    ...[
      ['GET', `/templates/${foreign}`],
      ['DELETE', `/templates/${foreign}`],
    ],
    ...[
      ['GET', '/templates/foreign'],
      ['GET', '/templates/aliases/foreign'],
      ['GET', `/templates/aliases/${foreign}`],
    ],
  ] as const) {
    expect([path, (await send(method!, path!)).status]).toEqual([path, 404]);
  }
});
