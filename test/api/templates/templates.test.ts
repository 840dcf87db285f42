import { User } from '../../../db/accounts/user.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
let stranger: Caller;
let full: TemplateId;
const time = (hour: number) => new Date(Date.UTC(2026, 2, 4, hour));

beforeAll(async () => {
  api = await startApi();
  member = await api.addUser(api.root);
  stranger = await api.addAccount();
  const of = { accountId: api.root.accountId, ownerUserId: member.userId };
  full = await api.addTemplate({
    ...of,
    name: 'full-one',
    description: 'all there is',
    defaultCpuCount: 3,
    defaultMemoryMb: 768,
    visibility: 'public',
    templateSource: 'custom',
    customImageSource: 'imported',
    externalImageUrl: 'docker.example/team/app:1',
    externalRegistryUsername: 'robot',
    registryImageUrl: 'registry.example/p/full-one:latest',
    registryProject: 'p',
    registryRepository: 'full-one',
    registryTag: 'latest',
    imageSizeBytes: 5_000_000_000,
    metadata: '{"a":1}',
    ports: [{ port: 3000, servicePort: 3001, protocol: 'TCP', name: 'app', isProtected: true }],
    customCommand: 'serve',
    readyCommand: '{"type":"tcpSocket","port":3000}',
    buildStartedAt: time(1),
    pushStartedAt: time(2),
    pushCompletedAt: time(3),
    buildErrorMessage: 'once it failed',
    lastStorageSyncAt: time(4),
    parentTemplateId: 'tpl-parent',
    rootTemplateId: 'tpl-root',
    templateDocument: '# Read me',
  });
  await api.addTemplate({ ...of, name: 'private-one', visibility: 'private', status: 'building', image: null });
  await api.addTemplate({ ...of, name: 'shared-one', visibility: 'account_shared', templateDocument: '  \n' });
});
afterAll(() => api.stop());

const builtIn = ['code-interpreter-all', 'code-interpreter', 'base'];

const names = async (query = '', caller = member) => {
  const { status, body } = await api.send(caller, 'GET', `/v1/templates${query}`);
  expect(status).toBe(200);
  return body.data.templates.map((item: Json) => item.name);
};

test('the list, newest first: public ones to all, shared ones to the account, private ones to owner and root', async () => {
  expect(await names()).toEqual(['shared-one', 'private-one', 'full-one', ...builtIn]);
  expect(await names('', api.root)).toEqual(['shared-one', 'private-one', 'full-one', ...builtIn]);
  expect(await names('', await api.addUser(api.root))).toEqual(['shared-one', 'full-one', ...builtIn]);
  expect(await names('', stranger)).toEqual(['full-one', ...builtIn]);
});

test.each([
  ['?usable=true', ['shared-one', 'full-one', ...builtIn]],
  ['?usable=false', ['shared-one', 'private-one', 'full-one', ...builtIn]],
  ['?status=building', ['private-one']],
  ['?visibility=account_shared', ['shared-one']],
  ['?name=base', ['base']],
  ['?name=bas', []],
  ['?limit=1&page=2', ['private-one']],
  ['?page_size=1&skip=5', ['base']],
])('filter %s', async (query, expected) => {
  expect(await names(query)).toEqual(expected);
});

test('pages of 20 by default, and the same limits as every list', async () => {
  const { body } = await api.send(member, 'GET', '/v1/templates');
  expect(body.data.pagination).toEqual({ page: 1, limit: 20, total: 6, total_pages: 1, offset: 0, next_cursor: null });
  expect((await api.send(member, 'GET', '/v1/templates?limit=-1')).body.code).toBe('invalid_pagination');
  expect((await api.send(member, 'GET', '/v1/templates?status=gone')).body.code).toBe('validation_failed');
  expect((await api.send(member, 'GET', '/v1/templates?usable=perhaps')).body.code).toBe('validation_failed');
});

test('a template with every field', async () => {
  const { body } = await api.send(member, 'GET', `/v1/templates/${full}`);
  const em = api.orm.em.fork();
  const row = await em.findOneOrFail(Template, { templateId: full });
  const owner = await em.findOneOrFail(User, { userId: member.userId });
  const expected = {
    template_id: full,
    name: 'full-one',
    description: 'all there is',
    default_cpu_count: 3,
    default_memory_mb: 768,
    visibility: 'public',
    template_source: 'custom',
    custom_image_source: 'imported',
    external_image_url: 'docker.example/team/app:1',
    external_registry_username: 'robot',
    status: 'available',
    owner_user_id: member.userId,
    owner_account_id: api.root.accountId,
    registry_image_url: 'registry.example/p/full-one:latest',
    registry_project: 'p',
    registry_repository: 'full-one',
    registry_tag: 'latest',
    image_size_bytes: 5_000_000_000,
    metadata: '{"a":1}',
    ports: [{ port: 3000, service_port: 3001, protocol: 'TCP', name: 'app', is_protected: true }],
    custom_command: 'serve',
    ready_command: '{"type":"tcpSocket","port":3000}',
    start_image_command: true,
    build_started_at: time(1).toISOString(),
    push_started_at: time(2).toISOString(),
    push_completed_at: time(3).toISOString(),
    build_error_message: 'once it failed',
    last_storage_sync_at: time(4).toISOString(),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    has_template_document: true,
    owner: { user_id: owner.userId, username: owner.username, display_name: owner.displayName },
  };
  expect(body.data).toEqual({
    ...expected,
    parent_template_id: 'tpl-parent',
    root_template_id: 'tpl-root',
    template_document: '# Read me',
  });
  const list = await api.send(member, 'GET', '/v1/templates?name=full-one');
  expect(list.body.data.templates).toEqual([expected]);
  const shared = await api.send(member, 'GET', '/v1/templates?name=shared-one');
  expect(shared.body.data.templates[0].has_template_document).toBe(false);
});

test('a built-in template has no owner', async () => {
  const [base] = (await api.send(stranger, 'GET', '/v1/templates?name=base')).body.data.templates;
  expect(base).toMatchObject({
    template_source: 'platform_family',
    visibility: 'public',
    status: 'available',
    default_cpu_count: 2,
    default_memory_mb: 512,
    owner_user_id: null,
    owner_account_id: null,
  });
  expect(base.owner).toBeUndefined();
  const read = await api.send(stranger, 'GET', `/v1/templates/${base.template_id}`);
  expect(read.body.data.root_template_id).toBe(base.template_id);
});

test("another account does not learn the name of a public template's registry account", async () => {
  const { body } = await api.send(stranger, 'GET', `/v1/templates/${full}`);
  expect(body.data.external_registry_username).toBeNull();
});
