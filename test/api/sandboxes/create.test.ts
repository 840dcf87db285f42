import { User } from '../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { cloneRows } from '../../support/cloned-rows.ts';
import { addHost, type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const create = (body: unknown, caller = api.root) => api.send(caller, 'POST', '/v1/sandboxes', body);
const forget = (sandboxId: SandboxId) => api.send(api.root, 'DELETE', `/v1/sandboxes/${sandboxId}`);

/** Expects a refusal with this code, and no changes anywhere. */
async function refuses(body: unknown, status: number, code: string, caller?: Caller): Promise<{ path: string }[]> {
  const before = await api.counts();
  const reply = await create(body, caller);
  expect([reply.status, reply.body.code]).toEqual([status, code]);
  expect(await api.counts()).toEqual(before);
  return reply.body.details ?? [];
}

describe('a sandbox has the requested fields', () => {
  test('every field of the table', async () => {
    const project = await api.send(api.root, 'POST', '/v1/projects', { name: 'Given' });
    const asked = {
      name: 'My box 1',
      description: 'for a test',
      template: 'base',
      project_id: project.body.data.project_id,
      cpu_count: 1,
      memory_mb: 256,
      storage_gb: 3,
      timeout: 120,
      env_vars: { GREETING: 'hello', EMPTY: '' },
      metadata: { team: 'blue', run: 7, dry: true },
      secure: false,
      allow_internet_access: false,
      object_storage: null,
      object_storage_direct_mount: false,
      s3fs_executable_path: '',
      custom_ports: [
        { port: 8080, name: 'web' },
        { port: 9000, name: 'metrics', protocol: 'TCP' },
      ],
      locality: { auto_detect: true, region: 'local' },
      auto_pause: true,
      is_async: false,
    };
    const { status, body } = await create(asked);
    expect(status).toBe(201);
    const ports = [
      { port: 8080, service_port: 8080, protocol: 'TCP', name: 'web', is_protected: false },
      { port: 9000, service_port: 9000, protocol: 'TCP', name: 'metrics', is_protected: false },
    ];
    expect(body.data).toMatchObject({
      name: 'My box 1',
      description: 'for a test',
      owner_user_id: api.root.userId,
      project_id: asked.project_id,
      cpu_count: 1,
      memory_mb: 256,
      storage_gb: 3,
      timeout: 120,
      env_vars: asked.env_vars,
      metadata: { team: 'blue', run: '7', dry: 'true' },
      secure: false,
      allow_internet_access: false,
      object_storage: null,
      object_storage_single: null,
      object_storage_direct_mount: false,
      object_storage_s3fs_path: '',
      custom_ports: ports,
      template_ports: [],
      ports,
      auto_pause: true,
      status: 'running',
      reason: 'user_requested',
      web_terminal_available: true,
      web_files_available: true,
      template_name: 'base',
      uptime: expect.any(Number),
      persistence_days: 7,
    });
    expect(body.data.envd_access_token).toBe(`token-of-${body.data.sandbox_id}`);
    expect(Date.parse(body.data.timeout_at)).toBe(Date.parse(body.data.started_at) + 120_000);
    expect(Date.parse(body.data.updated_at)).toBeGreaterThanOrEqual(Date.parse(body.data.created_at));
    expect(body.data.sandbox_domain).toBe(`${body.data.sandbox_id}.sandbox.localhost:7081`);
    expect(body.data.sandbox_domain_internal).toBe('10.88.0.7:49983');
    const row = await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: body.data.sandbox_id });
    expect(row).toMatchObject({ accountId: api.root.accountId, region: 'local', image: 'builtin:base' });
    await forget(row.sandboxId);
  });

  const zeros = {
    ...{ name: '', description: '', template: '', project_id: '', cpu_count: 0, memory_mb: 0, storage_gb: 0 },
    ...{ env_vars: {}, metadata: {}, custom_ports: [], s3fs_executable_path: '', object_storage: [] },
    locality: { auto_detect: true, region: '', force: false },
  };
  test.each([
    ['nothing', {}],
    ['the zero value of each field', zeros],
    ['null for each field', Object.fromEntries(Object.keys(zeros).map((name) => [name, null]))],
  ])('the defaults, if the caller gives %s', async (_, given) => {
    const { status, body } = await create(given);
    expect(status).toBe(201);
    expect(body.data).toMatchObject({
      template_name: 'base',
      description: '',
      project_id: api.root.projectId,
      cpu_count: 2,
      memory_mb: 512,
      storage_gb: 5,
      timeout: 300,
      env_vars: {},
      metadata: {},
      secure: true,
      allow_internet_access: true,
      custom_ports: [],
      auto_pause: false,
    });
    expect(body.data.name).toMatch(/^[a-z]+-[a-z]+-[0-9a-f]{4}$/);
    await forget(body.data.sandbox_id);
  });

  test('a description has up to 64 KiB', async () => {
    const description = '\u00e9'.repeat(65_536);
    const made = await create({ description, is_async: true });
    expect(made.body.data.description).toBe(description);
    await forget(made.body.data.sandbox_id);
    expect((await create({ description: `${description}x` })).body.details[0].path).toBe('description');
  });

  test('sync waits until it runs, async is answered earlier', async () => {
    const sync = await create({});
    expect(sync.body.data.status).toBe('running');
    expect(api.commands.calls.at(-1)).toBe('start and wait');
    await forget(sync.body.data.sandbox_id);
    const async = await create({ is_async: true });
    expect(async.status).toBe(201);
    expect(async.body.data).toMatchObject({ status: 'starting', substatus: 'allocating' });
    expect(async.body.data.sandbox_domain_internal).toBeNull();
    expect(api.commands.calls.at(-1)).toBe('start only');
    await forget(async.body.data.sandbox_id);
  });

  test('an admitted sandbox that cannot be started yet is returned with its status, and left to the relay', async () => {
    api.commands.failNext = new Error('Temporal is away');
    const { status, body } = await create({});
    expect([status, body.data.status, body.data.reason]).toEqual([202, 'created', 'user_requested']);
    const waiting = await api.orm.em
      .fork()
      .execute('select 1 from outbox where workflow_id = ?', [body.data.sandbox_id]);
    expect(waiting).toHaveLength(1);
    await api.orm.em
      .fork()
      .execute('update sandboxes set status = ? where sandbox_id = ?', ['failed', body.data.sandbox_id]);
  });
});

describe('invalid input is refused and leaves nothing', () => {
  test.each([
    ['a string for a number', { cpu_count: '2' }, 'cpu_count'],
    ['half a core', { cpu_count: 0.5 }, 'cpu_count'],
    ['no time at all', { timeout: 0 }, 'timeout'],
    ['fewer cores than none', { cpu_count: -1 }, 'cpu_count'],
    ['more than an integer holds', { storage_gb: 1e12 }, 'storage_gb'],
    ['too little memory', { memory_mb: 64 }, 'memory_mb'],
    ['a timeout under a minute', { timeout: 59 }, 'timeout'],
    ['a negative timeout', { timeout: -300 }, 'timeout'],
    ['a word for a flag', { secure: 'yes' }, 'secure'],
    ['a list for metadata', { metadata: ['a'] }, 'metadata'],
    ['an object inside metadata', { metadata: { a: { b: 1 } } }, 'metadata.a'],
    ['a number in env_vars', { env_vars: { A: 1 } }, 'env_vars.A'],
    ['a variable that has = in its name', { env_vars: { 'A=B': 'x' } }, 'env_vars.A=B'],
    ['a variable without a name', { env_vars: { '': 'x' } }, 'env_vars.'],
    ['port 0', { custom_ports: [{ port: 0, name: 'a' }] }, 'custom_ports.0.port'],
    ['port 65536', { custom_ports: [{ port: 65_536, name: 'a' }] }, 'custom_ports.0.port'],
    ['a port without a name', { custom_ports: [{ port: 80 }] }, 'custom_ports.0.name'],
    ['a port name of 16 characters', { custom_ports: [{ port: 80, name: 'a'.repeat(16) }] }, 'custom_ports.0.name'],
    ['an unknown protocol', { custom_ports: [{ port: 80, name: 'a', protocol: 'SCTP' }] }, 'custom_ports.0.protocol'],
    [
      'one port twice',
      {
        custom_ports: [
          { port: 80, name: 'a' },
          { port: 80, name: 'b' },
        ],
      },
      'custom_ports.1.port',
    ],
    [
      'one port name twice',
      {
        custom_ports: [
          { port: 80, name: 'a' },
          { port: 81, name: 'a' },
        ],
      },
      'custom_ports.1.name',
    ],
    ['a locality that is a word', { locality: 'local' }, 'locality'],
    [
      'a mount without a key',
      { object_storage: { uri: 's3://b/p', mount_point: '/mnt', region: 'r' } },
      'object_storage.access_key',
    ],
    [
      'a mount that is no bucket',
      { object_storage: [{ uri: 'http://b', mount_point: '/m', access_key: 'a', secret_key: 'b', region: 'r' }] },
      'object_storage.0.uri',
    ],
    [
      'a mount with neither region nor endpoint',
      { object_storage: { uri: 's3://b/p', mount_point: '/mnt', access_key: 'a', secret_key: 'b' } },
      'object_storage.region',
    ],
  ])('%s', async (_name, body, path) => {
    const details = await refuses(body, 400, 'validation_failed');
    expect(details.map((item) => item.path)).toContain(path);
  });

  test.each(['x'.repeat(25), 'new\nline', 'tab\there', 'turned\u202eround'])('the name %j', async (name) => {
    expect((await refuses({ name }, 400, 'invalid_name'))[0]!.path).toBe('name');
  });

  test.each([
    [{ cpu_count: 5 }, 'cpu_count'],
    [{ memory_mb: 4097 }, 'memory_mb'],
    [{ storage_gb: 11 }, 'storage_gb'],
    [{ timeout: 3601 }, 'timeout'],
  ])('more than the plan allows: %j', async (body, path) => {
    expect((await refuses(body, 400, 'plan_limit_exceeded'))[0]!.path).toBe(path);
  });

  test('all values above the plan are named together, and values at its limit are allowed', async () => {
    const details = await refuses(
      { cpu_count: 64, memory_mb: 99_999, storage_gb: 500, timeout: 99_999 },
      400,
      'plan_limit_exceeded',
    );
    expect(details.map((item) => item.path)).toEqual(['cpu_count', 'memory_mb', 'storage_gb', 'timeout']);
    const edge = await create({ cpu_count: 4, memory_mb: 4096, storage_gb: 10, timeout: 3600 });
    expect(edge.status).toBe(201);
    await forget(edge.body.data.sandbox_id);
  });

  test('an unknown region', () => refuses({ locality: { region: 'atlantis' } }, 400, 'invalid_region'));

  test('a timeout below the minimum, with the message that clients expect', async () => {
    const { body } = await create({ timeout: 59 });
    expect(body.error).toContain('timeout must be at least 60 seconds');
  });

  test.each([
    ['without a direct mount', { s3fs_executable_path: '/usr/bin/s3fs' }],
    ['that is not absolute', { s3fs_executable_path: 'bin/s3fs', object_storage_direct_mount: true }],
    ['with a space', { s3fs_executable_path: '/bin/s3 fs', object_storage_direct_mount: true }],
  ])('a path of s3fs %s', async (_, body) => {
    expect((await refuses(body, 400, 'validation_failed'))[0]!.path).toBe('s3fs_executable_path');
  });
});

test('names of variables may contain any character except = and NUL', async () => {
  const names = { 'with space': '1', '1st': '2', 'ünï-code': '3', 'a\nb': '4' };
  const { status, body } = await create({ env_vars: names });
  expect([status, body.data.env_vars]).toEqual([201, names]);
  await forget(body.data.sandbox_id);
});

test.each(['base', 'code-interpreter'])(
  'a direct mount is ignored in %s, which is not a custom template',
  async (template) => {
    const { status, body } = await create({
      template,
      object_storage_direct_mount: true,
      s3fs_executable_path: '/bin/s3fs',
    });
    expect(status).toBe(201);
    expect(body.data).toMatchObject({ object_storage_direct_mount: false, object_storage_s3fs_path: '' });
    await forget(body.data.sandbox_id);
  },
);

describe('templates', () => {
  test.each(['nothing', 'tpl-doesnotexist', ' base'])('an unknown template is 404: %j', (template) =>
    refuses({ template }, 404, 'template_not_found'),
  );

  test.each([['pending'], ['building'], ['pushing'], ['failed']] as const)(
    'a template that is %s is 400',
    async (status) => {
      const template = await api.addTemplate({ status, image: 'registry.example/own:1' });
      await refuses({ template }, 400, 'template_not_usable');
    },
  );

  test.each([['pending'], ['building']] as const)(
    'a template that is %s is accepted if hosts make its image, and only that reply has a message',
    async (status) => {
      const builtin = { accountId: null, ownerUserId: null, visibility: 'public' } as const;
      const template = await api.addTemplate({ ...builtin, status, image: 'builtin:code-interpreter' });
      const { status: code, body } = await create({ template, is_async: true });
      expect([code, body.message]).toEqual([
        201,
        'The image of the template is being built; the sandbox starts when it is ready',
      ]);
      await forget(body.data.sandbox_id);
      const other = await create({ is_async: true });
      expect(other.body.message).toBeUndefined();
      await forget(other.body.data.sandbox_id);
    },
  );

  test('a template that is made from a built-in one is available, also while hosts make its image', async () => {
    const em = api.orm.em.fork();
    const { templateId } = await em.findOneOrFail(Template, { name: 'code-interpreter', accountId: null });
    const body = { name: 'from-interpreter', base_template_id: templateId };
    const made = await api.send(api.root, 'POST', '/v1/templates', body);
    expect([made.status, made.body.data.status]).toEqual([201, 'available']);
    const sandbox = await create({ template: 'from-interpreter' });
    expect(sandbox.status).toBe(201);
    await forget(sandbox.body.data.sandbox_id);
  });

  test.each([['pushing'], ['failed']] as const)(
    'a template whose image hosts make is 400 while it is %s',
    async (status) => {
      const buildErrorMessage = 'The image could not be made (a step)';
      const template = await api.addTemplate({ status, image: 'builtin:code-interpreter', buildErrorMessage });
      await refuses({ template }, 400, 'template_not_usable');
      expect((await create({ template })).body.error).toBe(
        `The template is ${status}, not available: ${buildErrorMessage}`,
      );
    },
  );

  test("visible are the user's own templates, the account's shared ones and public ones; another user's by id and by owner/name", async () => {
    const member = await api.addUser(api.root);
    const stranger = await api.addAccount('pro');
    const of = { accountId: api.root.accountId, ownerUserId: member.userId };
    const own = await api.addTemplate({ ...of, visibility: 'private', name: 'members-own' });
    const shared = await api.addTemplate({ ...of, visibility: 'account_shared', name: 'shared-one' });
    const colleague = await api.addUser(api.root);
    const { username } = await api.orm.em.fork().findOneOrFail(User, { userId: member.userId });
    for (const [caller, template, visible] of [
      [member, own, true],
      [member, 'members-own', true],
      [member, `${username}/members-own`, true],
      [api.root, own, true],
      [api.root, `${username}/members-own`, true],
      [api.root, 'members-own', false],
      [api.root, 'shared-one', false],
      [colleague, own, false],
      [colleague, 'members-own', false],
      [colleague, `${username}/members-own`, false],
      [colleague, shared, true],
      [colleague, 'shared-one', false],
      [colleague, `${username.toUpperCase()}/shared-one`, true],
      [colleague, `${username}/shared-one/`, false],
      [colleague, '/shared-one', false],
      [stranger, own, false],
      [stranger, shared, false],
      [stranger, 'shared-one', false],
      [stranger, `${username}/shared-one`, false],
      [stranger, 'base', true],
    ] as const) {
      const reply = await create({ template, cpu_count: 1 }, caller);
      expect([template, reply.status]).toEqual([template, visible ? 201 : 404]);
      if (visible) await api.send(caller, 'DELETE', `/v1/sandboxes/${reply.body.data.sandbox_id}`);
      else expect(reply.body.code).toBe('template_not_found');
    }
  });

  test('a built-in and a public name win over rows of users that have it already, also shared ones and own ones', async () => {
    const member = await api.addUser(api.root);
    const operator = await api.addAccount('pro');
    const taken = { image: 'registry.example/own:1', defaultCpuCount: 1, defaultMemoryMb: 256 } as const;
    const of = { accountId: api.root.accountId, ownerUserId: member.userId, ...taken };
    const publicOne = { accountId: operator.accountId, ownerUserId: operator.userId, visibility: 'public' } as const;
    const wins = await api.addTemplate({ ...publicOne, name: 'public-one', createdAt: new Date(Date.now() + 60_000) });
    await api.addTemplate({ ...of, visibility: 'private', name: 'public-one' });
    const captures = await api.addTemplate({ ...of, visibility: 'private', name: 'base' });
    const { templateId: base } = await api.orm.em.fork().findOneOrFail(Template, { name: 'base', accountId: null });
    for (const visibility of ['private', 'account_shared'] as const) {
      await api.orm.em.fork().nativeUpdate(Template, { templateId: captures }, { visibility });
      for (const caller of [api.root, member, await api.addUser(api.root)]) {
        for (const [name, expected] of [
          ['base', base],
          ['public-one', wins],
        ] as const) {
          const { body } = await create({ template: name, cpu_count: 1 }, caller);
          expect([visibility, name, body.data?.template_id]).toEqual([visibility, name, expected]);
          await api.send(caller, 'DELETE', `/v1/sandboxes/${body.data.sandbox_id}`);
        }
      }
    }
    const own = await create({ template: captures }, member);
    expect([own.status, own.body.data.template_id]).toEqual([201, captures]);
    await api.send(member, 'DELETE', `/v1/sandboxes/${own.body.data.sandbox_id}`);
  });

  test("the template has the sandbox's defaults", async () => {
    await api.addTemplate({
      accountId: api.root.accountId,
      ownerUserId: api.root.userId,
      visibility: 'private',
      name: 'with-defaults',
      defaultCpuCount: 3,
      defaultMemoryMb: 1024,
      image: 'registry.example/own:1',
      ports: [{ port: 3000, servicePort: 3001, protocol: 'TCP', name: 'app', isProtected: false }],
      customCommand: '{"Entrypoint":[],"Cmd":["serve"]}',
      readyCommand: '{"type":"tcpSocket","port":3000}',
    });
    const { body } = await create({ template: 'with-defaults', custom_ports: [{ port: 3000, name: 'mine' }] });
    const custom = { port: 3000, service_port: 3000, protocol: 'TCP', name: 'mine', is_protected: false };
    expect(body.data).toMatchObject({
      cpu_count: 3,
      memory_mb: 1024,
      template_ports: [{ port: 3000, service_port: 3001, protocol: 'TCP', name: 'app', is_protected: false }],
      custom_ports: [custom],
      ports: [custom],
      template_custom_command: '{"Entrypoint":[],"Cmd":["serve"]}',
      template_ready_command: '{"type":"tcpSocket","port":3000}',
    });
    await forget(body.data.sandbox_id);
  });
});

describe('projects', () => {
  test("another account's, another user's and an unknown one are 404; the account root may use the account's", async () => {
    const member = await api.addUser(api.root);
    const stranger = await api.addAccount();
    await refuses({ project_id: stranger.projectId }, 404, 'not_found');
    await refuses({ project_id: api.root.projectId }, 404, 'not_found', member);
    await refuses({ project_id: 'prj-none' }, 404, 'not_found');
    const allowed = await create({ project_id: member.projectId });
    expect(allowed.body.data).toMatchObject({ project_id: member.projectId, owner_user_id: api.root.userId });
    await forget(allowed.body.data.sandbox_id);
  });

  test('a project that is deleted during the request is 404', async () => {
    const project = await api.send(api.root, 'POST', '/v1/projects', { name: 'Vanishing' });
    const projectId = project.body.data.project_id;
    const [made, gone] = await Promise.all([
      create({ project_id: projectId }),
      api.send(api.root, 'DELETE', `/v1/projects/${projectId}`),
    ]);
    // The first one succeeds, never both, and there is never an internal error.
    expect([
      [201, 400],
      [404, 200],
    ]).toContainEqual([made.status, gone.status]);
    if (made.status === 201) await forget(made.body.data.sandbox_id);
  });
});

describe('admission', () => {
  test('a create that would wait for too many other starts is refused at once, and says when to retry', async () => {
    const [busy, other] = [await api.addAccount('enterprise'), await api.addAccount('enterprise')];
    const sandboxId = (await create({}, busy)).body.data.sandbox_id;
    const sql = (text: string, ...values: unknown[]) => api.orm.em.fork().execute(text, values);
    await sql("update sandboxes set status = 'starting', started_at = null where sandbox_id = ?", sandboxId);
    await cloneRows(api.orm.em, 'sandboxes', 'sandbox_id', 19, {}, `sandbox_id = '${sandboxId}'`);
    const measure = (seconds: number | null) => sql('update hosts set seconds_per_start = ?', seconds);

    await measure(0.4);
    // The other account would wait for 8 seconds. The busy one may have half of the starts, so it waits twice as long.
    const refused = await create({}, busy);
    expect([refused.status, refused.body.code, refused.headers['retry-after']]).toEqual([429, 'start_queue_full', '5']);
    await refuses({}, 429, 'start_queue_full', busy);
    expect((await create({}, other)).status).toBe(201);
    // This caller does not wait for the start.
    expect((await create({ is_async: true }, busy)).status).toBe(201);
    await measure(0.6);
    await refuses({}, 429, 'start_queue_full', other);
    // Such old ones wait for something else, for example an image.
    await sql("update sandboxes set created_at = now() - interval '2 minutes' where account_id = ?", busy.accountId);
    expect((await create({}, other)).status).toBe(201);
    await measure(null);
    await sql('update sandboxes set created_at = now() where account_id = ?', busy.accountId);
    expect((await create({}, busy)).status).toBe(201);
    await sql('delete from sandboxes where account_id in (?, ?)', busy.accountId, other.accountId);
  });

  test('100 concurrent creates on a plan of 10 admit exactly 10', async () => {
    const owner = await api.addAccount('hobby');
    const replies = await Promise.all(
      Array.from({ length: 100 }, () => create({ cpu_count: 1, memory_mb: 128, storage_gb: 1, is_async: true }, owner)),
    );
    const admitted = replies.filter((reply) => reply.status === 201);
    expect(admitted).toHaveLength(10);
    expect(new Set(admitted.map((reply) => reply.body.data.sandbox_id)).size).toBe(10);
    for (const reply of replies.filter((item) => item.status !== 201)) {
      expect([reply.status, reply.body.code]).toEqual([429, 'concurrent_limit_reached']);
    }
    expect(await api.orm.em.fork().count(Sandbox, { accountId: owner.accountId })).toBe(10);
    const events = await api.orm.em
      .fork()
      .execute("select 1 from events where account_id = ? and type like 'sandbox.%'", [owner.accountId]);
    expect(events).toHaveLength(10);
  });

  test('a host that is full, and no live host at all, are 503 no_capacity', async () => {
    const small = await startApi({ planName: 'enterprise' });
    try {
      const em = small.orm.em.fork();
      await em.execute('delete from hosts');
      await addHost(small.orm, 'local', 3);
      const first = await small.send(small.root, 'POST', '/v1/sandboxes', { cpu_count: 2, storage_gb: 1 });
      expect(first.status).toBe(201);
      const before = await small.counts();
      const full = await small.send(small.root, 'POST', '/v1/sandboxes', { cpu_count: 2, storage_gb: 1 });
      expect([full.status, full.body.code]).toEqual([503, 'no_capacity']);
      await em.execute("update hosts set lease_expires_at = now() - interval '1 second'");
      const none = await small.send(small.root, 'POST', '/v1/sandboxes', { cpu_count: 1, storage_gb: 1 });
      expect([none.status, none.body.code]).toEqual([503, 'no_capacity']);
      expect(await small.counts()).toEqual(before);
    } finally {
      await small.stop();
    }
  });
});
