import { randomBytes } from 'node:crypto';
import { Event } from '../../../db/core/event.entity.ts';
import { newId } from '../../../db/core/new-id.ts';
import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { ImportJob } from '../../../db/templates/import-job.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { hasManifest, pushImage } from '../../support/pushed-image.ts';
import { registryAddress } from '../../support/stack.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let registry: string;
let origin: string;
let member: Caller;
let colleague: Caller;
let stranger: Caller;
beforeAll(async () => {
  registry = await registryAddress();
  origin = `http://${registry}`;
  api = await startApi({
    env: { PLATFORM_REGISTRY: registry, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' },
  });
  [member, colleague, stranger] = [await api.addUser(api.root), await api.addUser(api.root), await api.addAccount()];
});
afterAll(() => api.stop());

const newName = () => `tmpl-${randomBytes(4).toString('hex')}x`;
const row = (templateId: TemplateId) => api.orm.em.fork().findOneOrFail(Template, { templateId });

async function make(body: Json = {}, caller = member): Promise<Json> {
  const reply = await api.send(caller, 'POST', '/v1/templates', { name: newName(), ...body });
  expect([reply.status, reply.body.code]).toEqual([201, undefined]);
  return reply.body.data;
}

async function readCode(method: string, url: string, body?: Json, caller: Caller = member): Promise<[number, string]> {
  const reply = await api.send(caller, method, url, body);
  return [reply.status, reply.body.code];
}

describe('the name of a built-in or public template', () => {
  test.each([['base'], ['code-interpreter-all'], ['public-tool']])('%s is refused everywhere', async (name) => {
    const operator = await api.addAccount();
    const publicOne = { accountId: operator.accountId, ownerUserId: operator.userId, visibility: 'public' } as const;
    if (name === 'public-tool') await api.addTemplate({ ...publicOne, name });
    const { template_id: made } = await make();
    const attempts: [string, string, Json][] = [
      ['POST', '/v1/templates', { name }],
      ['POST', '/v1/templates', { name, visibility: 'account_shared' }],
      ['POST', '/v1/templates/import', { name, external_image_url: 'registry.example/a/b:1' }],
      ['PUT', `/v1/templates/${made}`, { name }],
      ['POST', `/v1/templates/${made}/share`, { new_name: name }],
    ];
    for (const [method, url, body] of attempts) {
      expect([url, ...(await readCode(method, url, body))]).toEqual([url, 409, 'template_name_taken']);
    }
    expect(await readCode('POST', '/v1/templates', { name, visibility: 'public' }, api.root)).toEqual([
      409,
      'template_name_taken',
    ]);
  });
});

describe('create', () => {
  test('with only a name, and with every field', async () => {
    const plain = await make();
    expect(plain).toMatchObject({
      ...{ description: '', default_cpu_count: 2, default_memory_mb: 512, visibility: 'private', ports: [] },
      ...{ template_source: 'platform_family', custom_image_source: null, status: 'pending', owner_id: member.userId },
      ...{ registry_project: member.userId, registry_repository: plain.name, registry_tag: 'latest', metadata: null },
    });
    const full = await make({
      ...{ description: 'what it is', default_cpu_count: 3, default_memory_mb: 1024, visibility: 'account_shared' },
      ...{ template_source: 'custom', custom_image_source: 'external', metadata: '{"a":[1]}' },
      ...{ external_image_url: 'ghcr.io/ada/app:1', external_registry_username: 'ada' },
      ...{ external_registry_password: 'very-secret-word', registry_tag: 'v2', registry_repository: 'app' },
      ports: '[{"port":8000,"name":"web","is_protected":true}]',
      ...{ custom_command: '{"Entrypoint":["/app"],"Cmd":[]}', ready_command: '{"type":"tcpSocket","port":8000}' },
    });
    expect(full).toMatchObject({
      ...{ external_image_url: 'ghcr.io/ada/app:1', external_registry_username: 'ada', status: 'pending' },
      ports: [{ port: 8000, service_port: 8000, protocol: 'TCP', name: 'web', is_protected: true }],
      ...{ registry_project: member.accountId, registry_repository: 'app', registry_tag: 'v2', metadata: '{"a":[1]}' },
      ...{ custom_command: '{"Entrypoint":["/app"],"Cmd":[]}', ready_command: '{"type":"tcpSocket","port":8000}' },
    });
    const read = await api.send(member, 'GET', `/v1/templates/${full.template_id}`);
    expect(read.body.data).toMatchObject({ parent_template_id: null, root_template_id: full.template_id });
    const kept = await row(full.template_id);
    expect(kept.registryPassword).toBeTruthy();
    expect(`${kept.registryPassword}${read.text}${api.log.join()}`).not.toContain('very-secret-word');
  });

  test.each([
    [{ name: 'no' }, 'invalid_name'],
    [{ name: 'Test' }, 'invalid_name'],
    [{ template_source: 'custom' }, 'validation_failed'],
    [{ template_source: 'custom', custom_image_source: 'external' }, 'validation_failed'],
    [{ ports: '{"port":1}' }, 'validation_failed'],
    [{ ports: '[{"port":1,"name":"a"},{"port":1,"name":"b"}]' }, 'validation_failed'],
    [{ ready_command: '{"type":"grpc","port":1}' }, 'validation_failed'],
    [{ ready_command: 'curl localhost' }, 'validation_failed'],
    [{ custom_command: '{"Cmd":"x"}' }, 'validation_failed'],
    [{ metadata: '{' }, 'validation_failed'],
    [{ default_cpu_count: 5 }, 'plan_limit_exceeded'],
    [{ default_memory_mb: 1_000_000 }, 'plan_limit_exceeded'],
    [{ default_memory_mb: 64 }, 'validation_failed'],
  ])('%j is refused: %s', async (body, code) => {
    expect(await readCode('POST', '/v1/templates', { name: newName(), ...body })).toEqual([400, code]);
  });

  test('an external image at a closed literal address is refused, at a public one it is not', async () => {
    const body = (url: string) => ({
      ...{ name: newName(), template_source: 'custom', custom_image_source: 'external', external_image_url: url },
    });
    for (const host of ['127.0.0.1:5000', '10.1.2.3', '169.254.169.254', '[::1]:5000', '192.168.0.1']) {
      expect([host, await readCode('POST', '/v1/templates', body(`${host}/a/b`))]).toEqual([
        host,
        [400, 'validation_failed'],
      ]);
    }
    expect((await readCode('POST', '/v1/templates', body('8.8.8.8/a/b')))[0]).toBe(201);
  });

  test('names are unique in an account; another account may use them', async () => {
    const { name } = await make();
    expect(await readCode('POST', '/v1/templates', { name }, colleague)).toEqual([409, 'template_name_taken']);
    expect((await readCode('POST', '/v1/templates', { name }, stranger))[0]).toBe(201);
  });

  test('public ones by operators only', async () => {
    const body = () => ({ name: newName(), visibility: 'public' });
    expect(await readCode('POST', '/v1/templates', body())).toEqual([403, 'admin_required']);
    const made = await make({ visibility: 'public' }, api.root);
    expect((await api.send(stranger, 'GET', `/v1/templates/${made.template_id}`)).status).toBe(200);
  });

  test('the plan limits how many an account has', async () => {
    const { maxTemplates } = api.plans.get('hobby');
    const full = await api.addAccount();
    const owner = { accountId: full.accountId, ownerUserId: full.userId };
    for (let i = 0; i < maxTemplates; i++) await api.addTemplate({ ...owner, visibility: 'private' });
    expect(await readCode('POST', '/v1/templates', { name: newName() }, full)).toEqual([400, 'template_limit_reached']);
  });

  test('the same Idempotency-Key makes one', async () => {
    const body = { name: newName(), external_registry_password: 'pass' };
    const headers = { 'idempotency-key': newName() };
    const [first, second] = [
      await api.send(member, 'POST', '/v1/templates', body, { headers }),
      await api.send(member, 'POST', '/v1/templates', body, { headers }),
    ];
    expect([first.status, second.status, second.body.data.template_id]).toEqual([
      201,
      201,
      first.body.data.template_id,
    ]);
  });
});

describe('inheritance', () => {
  const ports = '[{"port":1000,"name":"keep","is_protected":true},{"port":2000,"name":"drop"}]';

  test('a template inherits missing fields from its base', async () => {
    const base = await make({ ports, custom_command: 'serve', default_memory_mb: 1024, metadata: '{"a":1}' });
    const child = await make({ base_template_id: base.template_id, ports: '[{"port":3000,"name":"own"}]' });
    expect(child).toMatchObject({ custom_command: 'serve', default_memory_mb: 1024, metadata: '{"a":1}' });
    expect(child.ports.map((port: Json) => port.port)).toEqual([1000, 2000, 3000]);
    const grandchild = await make({ base_template_id: child.template_id, reset_ports: true, custom_command: 'other' });
    expect([grandchild.ports.map((port: Json) => port.port), grandchild.custom_command]).toEqual([[1000], 'other']);
    const { body } = await api.send(member, 'GET', `/v1/templates/${grandchild.template_id}`);
    expect(body.data).toMatchObject({ parent_template_id: child.template_id, root_template_id: base.template_id });
    const taken = { name: newName(), base_template_id: base.template_id, ports: '[{"port":1000,"name":"mine"}]' };
    expect(await readCode('POST', '/v1/templates', taken)).toEqual([400, 'validation_failed']);
  });

  test('a template that is made from base can be used at once', async () => {
    const [base] = (await api.send(member, 'GET', '/v1/templates?name=base')).body.data.templates;
    const child = await make({ base_template_id: base.template_id });
    expect(child.status).toBe('available');
    const sandbox = await api.send(member, 'POST', '/v1/sandboxes', { template: child.name });
    expect([sandbox.status, sandbox.body.data.template_id]).toEqual([201, child.template_id]);
    const { body } = await api.send(member, 'GET', `/v1/templates?usable=true&name=${child.name}`);
    expect(body.data.pagination.total).toBe(1);
  });

  test('only with the same source, and from a template that the caller can see', async () => {
    const custom = await make({ template_source: 'custom', custom_image_source: 'imported' });
    const body = (base: string) => ({ name: newName(), base_template_id: base });
    expect(await readCode('POST', '/v1/templates', body(custom.template_id))).toEqual([400, 'validation_failed']);
    expect(await readCode('POST', '/v1/templates', body(custom.template_id), stranger)).toEqual([
      404,
      'template_not_found',
    ]);
    expect(await readCode('POST', '/v1/templates', body('tpl-none'))).toEqual([404, 'template_not_found']);
  });
});

describe('change', () => {
  test('given fields change, the rest stays', async () => {
    const made = await make({ custom_command: 'serve', ports: '[{"port":1,"name":"a"}]' });
    const url = `/v1/templates/${made.template_id}`;
    const change = { description: 'new', default_memory_mb: 768, ports: '[{"port":2,"name":"b"}]', name: newName() };
    const { body } = await api.send(member, 'PUT', url, { ...change, default_cpu_count: 0, custom_command: '' });
    expect(body.data.template).toMatchObject({ description: 'new', default_memory_mb: 768, name: change.name });
    expect(body.data.template.ports).toMatchObject([{ port: 2, name: 'b' }]);
    expect((await row(made.template_id)).customCommand).toBe('serve');
    expect(await readCode('PUT', url, { name: 'admin' })).toEqual([400, 'invalid_name']);
    expect(await readCode('PUT', url, { default_cpu_count: 1000 })).toEqual([400, 'plan_limit_exceeded']);
  });

  test('a colleague who can see it may not change it; root may; operators change public ones', async () => {
    const shared = await make({ visibility: 'account_shared' });
    const url = `/v1/templates/${shared.template_id}`;
    expect(await readCode('PUT', url, { description: 'x' }, colleague)).toEqual([403, 'template_of_another_user']);
    for (const [method, path] of [
      ['DELETE', ''],
      ['PUT', '/document'],
      ['DELETE', '/document'],
      ['PUT', '/status'],
      ['POST', '/share'],
      ['POST', '/unshare'],
      ['POST', '/validate'],
    ] as const) {
      const body = { template_document: 'x', status: 'failed', registry_image_url: `${registry}/a/b` };
      const refused = await readCode(method, `${url}${path}`, method === 'DELETE' ? undefined : body, colleague);
      expect([method, path, refused]).toEqual([method, path, [403, 'template_of_another_user']]);
    }
    expect((await readCode('PUT', url, { description: 'by root' }, api.root))[0]).toBe(200);
    const foreign = await api.addTemplate({
      accountId: stranger.accountId,
      ownerUserId: stranger.userId,
      name: newName(),
    });
    expect(
      (await readCode('PUT', `/v1/templates/${foreign}/document`, { template_document: '# x' }, api.root))[0],
    ).toBe(200);
    expect(await readCode('PUT', `/v1/templates/${foreign}`, {}, member)).toEqual([403, 'template_of_another_user']);
  });
});

describe('documents', () => {
  test('are written, read, downloaded and removed', async () => {
    const made = await make({ visibility: 'account_shared' });
    const url = `/v1/templates/${made.template_id}/document`;
    const none = { template_id: made.template_id, template_document: null };
    expect((await api.send(member, 'GET', url)).body.data).toEqual(none);
    expect(await readCode('GET', `${url}?download=true`)).toEqual([400, 'template_document_missing']);
    const text = '# Größe\n';
    const written = await api.send(member, 'PUT', url, { template_document: text });
    expect(written.body.data).toEqual({ ...none, template_document: text });
    expect((await api.send(colleague, 'GET', url)).body.data.template_document).toBe(text);
    const file = await api.app.inject({ url: `${url}?download=yes`, headers: { 'x-api-key': member.key } });
    expect([file.statusCode, file.body, file.headers['content-type'], file.headers['content-disposition']]).toEqual([
      ...[200, text, 'text/markdown; charset=utf-8', `attachment; filename="${made.name}.md"`],
    ]);
    const [listed] = (await api.send(member, 'GET', `/v1/templates?name=${made.name}`)).body.data.templates;
    expect(listed.has_template_document).toBe(true);
    expect((await api.send(member, 'PUT', url, { template_document: ' \n' })).body.data).toEqual(none);
    await api.send(member, 'PUT', url, { template_document: text });
    expect((await api.send(member, 'DELETE', url)).body.data).toEqual(none);
    expect((await row(made.template_id)).templateDocument).toBeNull();
  });

  test('have 65,535 bytes at most', async () => {
    const url = `/v1/templates/${(await make()).template_id}/document`;
    const longest = 'é'.repeat(32_767);
    expect((await readCode('PUT', url, { template_document: `${longest}x` }))[0]).toBe(200);
    expect(await readCode('PUT', url, { template_document: `${longest}xy` })).toEqual([400, 'validation_failed']);
  });
});

describe('delete', () => {
  test('removes the template, records the event, and has the image removed', async () => {
    const made = await make();
    const image = `registry:${member.userId}/${made.name}@sha256:${'0'.repeat(64)}`;
    await api.orm.em.fork().nativeUpdate(Template, { templateId: made.template_id }, { image });
    const url = `/v1/templates/${made.template_id}`;
    const reply = await api.send(member, 'DELETE', url);
    expect([reply.status, reply.body.data]).toEqual([200, undefined]);
    expect(await readCode('GET', url)).toEqual([404, 'not_found']);
    const em = api.orm.em.fork();
    const [event] = await em.find(Event, { objectId: made.template_id });
    expect(event).toMatchObject({ type: 'template.deleted', userId: member.userId, sequence: 1 });
    const [entry] = await em.find(OutboxEntry, { workflowId: `${image}/removal` });
    expect(entry!.input).toEqual({ image, accountId: api.root.accountId });
  });

  test('is refused while a sandbox with a disk uses it, also a paused one, and possible afterwards', async () => {
    const [base] = (await api.send(member, 'GET', '/v1/templates?name=base')).body.data.templates;
    const made = await make({ base_template_id: base.template_id });
    const { sandbox_id: sandboxId } = (await api.send(member, 'POST', '/v1/sandboxes', { template: made.name })).body
      .data;
    const url = `/v1/templates/${made.template_id}`;
    const em = api.orm.em.fork();
    for (const status of ['running', 'paused', 'failed'] as const) {
      await em.nativeUpdate(Sandbox, { sandboxId }, { status, holdsDisk: true });
      expect([status, await readCode('DELETE', url)]).toEqual([status, [409, 'template_in_use']]);
    }
    await em.nativeUpdate(Sandbox, { sandboxId }, { status: 'terminated', holdsDisk: false });
    expect((await readCode('DELETE', url))[0]).toBe(200);
    const read = await api.send(member, 'GET', `/v1/sandboxes/${sandboxId}`);
    expect(read.body.data).toMatchObject({ template_name: made.name, template_exists: false });
  });

  test('concurrent creates and deletes leave no sandbox without its template', async () => {
    const [base] = (await api.send(member, 'GET', '/v1/templates?name=base')).body.data.templates;
    for (let round = 0; round < 5; round++) {
      const made = await make({ base_template_id: base.template_id });
      const [created, deleted] = await Promise.all([
        api.send(member, 'POST', '/v1/sandboxes', { template: made.name }),
        api.send(member, 'DELETE', `/v1/templates/${made.template_id}`),
      ]);
      expect([created.status, deleted.status]).toEqual(created.status === 201 ? [201, 409] : [404, 200]);
      if (created.status !== 201) continue;
      const { sandbox_id: sandboxId } = created.body.data;
      await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { status: 'terminated', holdsDisk: false });
    }
  });

  test('is refused for the platform’s own templates', async () => {
    const [base] = (await api.send(api.root, 'GET', '/v1/templates?name=base')).body.data.templates;
    expect(await readCode('DELETE', `/v1/templates/${base.template_id}`, undefined, api.root)).toEqual([
      ...[403, 'template_of_another_user'],
    ]);
  });
});

describe('images of the registry', () => {
  test('validate reads the manifest and makes the template available with it', async () => {
    const made = await make();
    const path = `${member.userId}/${made.name}`;
    const pushed = await pushImage(origin, path);
    const url = `/v1/templates/${made.template_id}/validate`;
    const reply = await api.send(member, 'POST', url, { registry_image_url: `${registry}/${path}:latest` });
    expect(reply.body.data).toEqual({
      ...{ message: expect.any(String), template_id: made.template_id, build_status: 'available' },
      registry_image_url: `${registry}/${path}:latest`,
    });
    const [event] = await api.orm.em.fork().find(Event, { objectId: made.template_id });
    expect(event).toMatchObject({
      ...{ type: 'template.uploaded', accountId: member.accountId, userId: member.userId, sequence: 1 },
      data: { template_id: made.template_id, name: made.name, sequence: 1 },
    });
    expect(await row(made.template_id)).toMatchObject({
      ...{ status: 'available', image: `registry:${path}@${pushed.digest}`, imageSizeBytes: pushed.sizeBytes },
      ...{ registryProject: member.userId, registryRepository: made.name, lastStorageSyncAt: expect.any(Date) },
    });
  });

  test('an image that is missing, invalid, of another user or another registry is 404 in every field that names one', async () => {
    const secret = newName();
    await pushImage(origin, `${stranger.userId}/${secret}`);
    await pushImage(origin, `${colleague.userId}/${secret}`);
    const made = await make();
    const url = `/v1/templates/${made.template_id}`;
    const places = [`${member.userId}/nothing:latest`, `${stranger.userId}/${secret}`, `${colleague.userId}/${secret}`];
    for (const image of [
      ...places.map((place) => `${registry}/${place}`),
      'registry.example.com/a/b:1',
      `${registry}/x`,
    ]) {
      const named = { registry_image_url: image };
      for (const [method, path, body] of [
        ['POST', '/v1/templates', { name: newName(), ...named }],
        ['PUT', url, named],
        ['PUT', `${url}/status`, { status: 'available', ...named }],
        ['POST', `${url}/validate`, named],
      ] as const) {
        expect([image, path, await readCode(method, path, body)]).toEqual([image, path, [404, 'image_not_found']]);
      }
    }
    const project = { name: newName(), registry_project: stranger.userId };
    expect(await readCode('POST', '/v1/templates', project)).toEqual([404, 'image_not_found']);
    expect((await row(made.template_id)).image).toBeNull();
  });

  test('an image with wrong sizes in its manifest is refused in every field that names one', async () => {
    const name = newName();
    await pushImage(origin, `${member.userId}/${name}`, { claimed: () => 10 ** 15 });
    const url = `${registry}/${member.userId}/${name}:latest`;
    const { template_id: made } = await make();
    for (const [method, path, body] of [
      ['POST', '/v1/templates', { name }],
      ['PUT', `/v1/templates/${made}`, {}],
      ['PUT', `/v1/templates/${made}/status`, { status: 'available' }],
      ['POST', `/v1/templates/${made}/validate`, {}],
    ] as const) {
      const refused = await readCode(method, path, { ...body, registry_image_url: url });
      expect([path, ...refused]).toEqual([path, 400, 'image_unusable']);
    }
    expect((await row(made)).imageBlobs ?? null).toBeNull();
  });

  test('an image beyond the storage of the plan is refused in every field that names one', async () => {
    const full = await api.addAccount();
    const owner = { accountId: full.accountId, ownerUserId: full.userId };
    const imageBlobs = [{ digest: 'sha256:full', size: 10 * 1024 ** 3 }];
    await api.addTemplate({ ...owner, name: newName(), visibility: 'account_shared', imageBlobs });
    await pushImage(origin, `${full.userId}/more`);
    const url = `${registry}/${full.userId}/more:latest`;
    const { template_id: made } = await make({}, full);
    for (const [method, path, body] of [
      ['POST', '/v1/templates', { name: newName() }],
      ['PUT', `/v1/templates/${made}`, {}],
      ['PUT', `/v1/templates/${made}/status`, { status: 'available' }],
      ['POST', `/v1/templates/${made}/validate`, {}],
    ] as const) {
      const refused = await readCode(method, path, { ...body, registry_image_url: url }, full);
      expect([path, ...refused]).toEqual([path, 400, 'template_storage_limit_reached']);
    }
  });

  test('a template without an image cannot be reported as available', async () => {
    const { template_id: made } = await make();
    expect(await readCode('PUT', `/v1/templates/${made}/status`, { status: 'available' })).toEqual([
      400,
      'validation_failed',
    ]);
    expect((await row(made)).status).toBe('pending');
  });

  test('an external build reports its status', async () => {
    const made = await make();
    const url = `/v1/templates/${made.template_id}/status`;
    await pushImage(origin, `${member.userId}/${made.name}`);
    for (const status of ['building', 'pushing', 'available', 'failed', 'pending']) {
      const image = status === 'available' ? { registry_image_url: `${registry}/${member.userId}/${made.name}` } : {};
      const reply = await api.send(member, 'PUT', url, {
        status,
        error_message: 'out of paper',
        push_logs: 'x',
        ...image,
      });
      expect(reply.body.data).toEqual({
        message: expect.any(String),
        template_id: made.template_id,
        build_status: status,
      });
      const { buildErrorMessage } = await row(made.template_id);
      expect(buildErrorMessage).toBe(status === 'failed' ? 'out of paper' : null);
    }
    expect(await row(made.template_id)).toMatchObject({
      ...{ buildStartedAt: expect.any(Date), pushStartedAt: expect.any(Date), pushCompletedAt: expect.any(Date) },
      image: expect.stringContaining('@sha256:'),
    });
    const uploads = () => api.orm.em.fork().count(Event, { objectId: made.template_id, type: 'template.uploaded' });
    expect(await uploads()).toBe(1);
    // Its image exists: the first report makes it available again, and the second changes nothing.
    for (let report = 0; report < 2; report += 1) {
      expect(await readCode('PUT', url, { status: 'available' })).toEqual([200, undefined]);
      expect(await uploads()).toBe(2);
    }
    expect(await readCode('PUT', url, { status: 'ready' })).toEqual([400, 'validation_failed']);
  });

  test('share and unshare move the image between the projects; a workflow removes the old copy', async () => {
    const made = await make();
    const own = `${member.userId}/${made.name}`;
    const { digest } = await pushImage(origin, own);
    await api.send(member, 'POST', `/v1/templates/${made.template_id}/validate`, {
      registry_image_url: `${registry}/${own}`,
    });
    const name = newName();
    const shared = await api.send(member, 'POST', `/v1/templates/${made.template_id}/share`, { new_name: name });
    const path = `${member.accountId}/${made.name}`;
    expect(shared.body.data).toEqual({
      ...{ template_id: made.template_id, visibility: 'account_shared', registry_project: member.accountId },
      ...{ registry_image_url: `${registry}/${path}:latest`, message: expect.any(String) },
    });
    expect(await hasManifest(origin, path, digest)).toBe(true);
    expect(await row(made.template_id)).toMatchObject({ name, image: `registry:${path}@${digest}` });
    expect((await api.send(colleague, 'GET', `/v1/templates/${made.template_id}`)).status).toBe(200);
    const removal = `registry:${own}@${digest}/removal`;
    expect(await api.orm.em.fork().count(OutboxEntry, { workflowId: removal })).toBe(1);
    const again = await api.send(member, 'POST', `/v1/templates/${made.template_id}/share`);
    expect([again.status, again.body.data.registry_project]).toEqual([200, member.accountId]);
    const back = await api.send(member, 'POST', `/v1/templates/${made.template_id}/unshare`);
    expect(back.body.data).toMatchObject({ visibility: 'private', registry_project: member.userId });
    expect(await row(made.template_id)).toMatchObject({ image: `registry:${own}@${digest}` });
    expect(await readCode('GET', `/v1/templates/${made.template_id}`, undefined, colleague)).toEqual([
      404,
      'not_found',
    ]);
  });

  test('a public template is neither shared nor unshared', async () => {
    const made = await make({ visibility: 'public' }, api.root);
    for (const what of ['share', 'unshare']) {
      const refused = await readCode('POST', `/v1/templates/${made.template_id}/${what}`, {}, api.root);
      expect(refused).toEqual([400, 'template_not_shareable']);
    }
  });

  test('during an import a template keeps its status and its image', async () => {
    const made = await make();
    const em = api.orm.em.fork();
    const { accountId, userId: ownerUserId } = member;
    em.create(ImportJob, {
      ...{ jobId: newId('importJob'), templateId: made.template_id, accountId, ownerUserId, status: 'running' },
      ...{ externalImageUrl: 'a/b', registryImageUrl: 'c', registryPath: 'c', maxRetries: 3 },
    });
    await em.flush();
    const url = `/v1/templates/${made.template_id}`;
    await pushImage(origin, `${member.userId}/${made.name}`);
    const named = { registry_image_url: `${registry}/${member.userId}/${made.name}` };
    for (const [method, path, body] of [
      ['PUT', `${url}/status`, { status: 'available' }],
      ['POST', `${url}/validate`, named],
      ['PUT', url, named],
      ['POST', `${url}/share`, {}],
      ['DELETE', url, undefined],
    ] as const) {
      expect([path, await readCode(method, path, body)]).toEqual([path, [409, 'import_in_progress']]);
    }
    expect((await readCode('PUT', url, { description: 'still' }))[0]).toBe(200);
  });

  test('an unreachable registry is 503', async () => {
    const away = await startApi({ env: { PLATFORM_REGISTRY: '127.0.0.1:9', PLATFORM_REGISTRY_INSECURE_HTTP: 'true' } });
    try {
      const { body } = await away.send(away.root, 'POST', '/v1/templates', { name: newName() });
      const image = `127.0.0.1:9/${away.root.userId}/web`;
      const url = `/v1/templates/${body.data.template_id}/validate`;
      const reply = await away.send(away.root, 'POST', url, { registry_image_url: image });
      expect([reply.status, reply.body.code]).toEqual([503, 'registry_unavailable']);
    } finally {
      await away.stop();
    }
  });
});
