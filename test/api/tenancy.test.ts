import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let member: Caller;
let objects: Record<string, string>;

beforeAll(async () => {
  api = await startApi({ planName: 'team' });
  member = await api.addUser(api.root);
  const sandbox = await api.send(member, 'POST', '/v1/sandboxes', { name: 'theirs' });
  const project = await api.send(member, 'POST', '/v1/projects', { name: 'Theirs' });
  objects = {
    port: '8080',
    sandbox_id: sandbox.body.data.sandbox_id,
    project_id: project.body.data.project_id,
    key_id: member.keyId,
    template_id: await api.addTemplate({
      accountId: member.accountId,
      ownerUserId: member.userId,
      visibility: 'private',
    }),
  };
});
afterAll(() => api.stop());

/** Bodies that each operation would accept. */
const bodies: Record<string, Json> = {
  updateSandbox: { timeout: 600 },
  setSandboxTimeout: { timeout: 600 },
  updateProject: { name: 'Taken over' },
  updateApiKey: { name: 'taken over' },
  setApiKeyStatus: { is_active: false },
  addSandboxPort: { port: 8080, name: 'web' },
  startExec: { command: 'true' },
};

async function state(): Promise<string> {
  const em = api.orm.em.fork();
  const rows = await Promise.all(
    ['sandboxes', 'projects', 'templates', 'events'].map((table) => em.execute(`select * from ${table} order by 1`)),
  );
  const keys = await em.execute('select key_id, name, is_active from api_keys order by 1');
  return JSON.stringify([...rows, keys]);
}

describe.each([
  ['another account', () => api.addAccount('team')],
  ['a colleague who is not root', () => api.addUser(api.root)],
])('to %s', (_name, makeCaller) => {
  test('every object is 404 on every route that names it, and stays as it is', async () => {
    const caller = await makeCaller();
    const before = await state();
    let tried = 0;
    for (const [template, item] of Object.entries<Json>(api.client.document.paths)) {
      if (!template.includes('{')) continue;
      const url = template.replaceAll(/\{([^}]+)\}/g, (_all, name) => objects[name]!);
      for (const [method, operation] of Object.entries<Json>(item)) {
        const body =
          operation.operationId === 'switchSandboxProject'
            ? { project_id: caller.projectId }
            : bodies[operation.operationId];
        const reply = await api.send(caller, method.toUpperCase(), url, body);
        expect([operation.operationId, reply.status, reply.body.code]).toEqual([
          operation.operationId,
          404,
          'not_found',
        ]);
        tried++;
      }
    }
    expect(tried).toBeGreaterThanOrEqual(21);
    expect(await state()).toBe(before);
  });

  test('their project cannot take a sandbox in, nor can theirs be moved', async () => {
    const caller = await makeCaller();
    const own = await api.send(caller, 'POST', '/v1/sandboxes', {});
    const sandbox = own.body.data.sandbox_id;
    for (const [url, body] of [
      [`/v1/sandboxes/${sandbox}/switch-project`, { project_id: objects.project_id }],
      [`/v1/projects/${objects.project_id}/sandboxes/${sandbox}/add`, undefined],
      [`/v1/projects/${caller.projectId}/sandboxes/${objects.sandbox_id}/add`, undefined],
      [`/v1/projects/${objects.project_id}/sandboxes/${sandbox}/evict`, undefined],
    ] as const) {
      expect((await api.send(caller, 'POST', url, body)).status).toBe(404);
    }
  });
});

const needOthers = ['getActiveExec', 'streamExec', 'getWebrtcTurnCredential'];

test("the account root may read and change everything of the account's users", async () => {
  for (const [template, item] of Object.entries<Json>(api.client.document.paths)) {
    if (!template.includes('{') || !item.get) continue;
    const url = template.replaceAll(/\{([^}]+)\}/g, (_all, name) => objects[name]!);
    const { status, body } = await api.send(api.root, 'GET', url);
    // Here are no agents and no TURN server, but a caller who may not read would get 404.
    if (needOthers.includes(item.get.operationId)) expect([template, body.code]).not.toEqual([template, 'not_found']);
    else expect([template, status]).toEqual([template, 200]);
  }
  const paused = await api.send(api.root, 'POST', `/v1/sandboxes/${objects.sandbox_id}/pause`);
  expect(paused.body.data).toMatchObject({ status: 'paused', owner: { user_id: member.userId } });
});

test('what cannot be an id is 404 like what does not exist', async () => {
  for (const id of ['sbx-none', 'nonsense', 'SBX-ABC', "sbx-a'--", '%F0%9F%92%A5', 'tpl-abc']) {
    expect((await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/projects/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/api-keys/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/templates/${id}`)).status).toBe(404);
  }
});
