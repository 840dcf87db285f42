import { User } from '../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
let ids: Record<'running' | 'paused' | 'pausing' | 'failed' | 'terminated' | 'starting', SandboxId>;

const minutes = 60_000;
const startedAt = Date.now();
const ago = (ms: number) => new Date(startedAt - ms);
const iso = (value: unknown) => new Date(value as string).toISOString();

beforeAll(async () => {
  api = await startApi({ planName: 'pro' });
  member = await api.addUser(api.root);
  const template = await api.addTemplate({
    name: 'full-template',
    ports: [{ port: 3000, servicePort: 3000, protocol: 'TCP', name: 'app', isProtected: true }],
    customCommand: 'serve --all',
    readyCommand: '{"type":"tcpSocket","port":3000}',
  });
  const make = async (name: string): Promise<SandboxId> => {
    const reply = await api.send(member, 'POST', '/v1/sandboxes', {
      name,
      description: `the ${name} one`,
      template,
      timeout: 3600,
      metadata: { stage: name },
      env_vars: { STAGE: name },
      custom_ports: [{ port: 8080, name: 'web' }],
      auto_pause: true,
      is_async: true,
    });
    expect(reply.status).toBe(201);
    return reply.body.data.sandbox_id;
  };
  ids = {
    running: await make('running'),
    paused: await make('paused'),
    pausing: await make('pausing'),
    failed: await make('failed'),
    terminated: await make('terminated'),
    starting: await make('starting'),
  };
  const { life } = api.commands;
  for (const id of [ids.running, ids.paused, ids.pausing, ids.failed, ids.terminated]) {
    await api.commands.run(id, ago(60 * minutes));
  }
  // It ran from 60 to 40 minutes ago, was paused until 10 minutes ago, and has run since.
  await life.pause(ids.running, 'user_requested', ago(40 * minutes), true);
  await life.beginResume(ids.running, 2);
  await api.commands.run(ids.running, ago(10 * minutes));
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: ids.running }, { lastAccessedAt: ago(5 * minutes) });
  await life.pause(ids.paused, 'auto_pause', ago(30 * minutes), true);
  await life.beginPause(ids.pausing, 'user_requested', ago(1000));
  await life.fail(
    ids.failed,
    'runtime_exited',
    { message: 'Its processes ended', exitCode: 137, outOfMemory: true, commandOutput: 'last words' },
    ago(20 * minutes),
  );
  await life.beginTermination(ids.terminated, 'timeout');
  await life.stop(ids.terminated, ago(15 * minutes));
  await life.endTermination(ids.terminated, 'timed_out', ago(14 * minutes), true);
});
afterAll(() => api.stop());

const read = async (id: string, caller = member): Promise<Json> => {
  const reply = await api.send(caller, 'GET', `/v1/sandboxes/${id}`);
  expect(reply.status).toBe(200);
  return reply.body.data;
};

test('a running sandbox: every known field', async () => {
  await api.orm.em.fork().execute('update hosts set bandwidth_mbps = 200');
  const data = await read(ids.running);
  const root = await api.orm.em.fork().findOneOrFail(User, { userId: api.root.userId });
  const owner = await api.orm.em.fork().findOneOrFail(User, { userId: member.userId });
  const template = { port: 3000, service_port: 3000, protocol: 'TCP', name: 'app', is_protected: true };
  const custom = { port: 8080, service_port: 8080, protocol: 'TCP', name: 'web', is_protected: false };
  expect(data).toMatchObject({
    sandbox_id: ids.running,
    name: 'running',
    description: 'the running one',
    status: 'running',
    substatus: null,
    reason: 'user_requested',
    template_name: 'full-template',
    template_exists: true,
    template_source: 'custom',
    project_id: member.projectId,
    project_name: 'Default',
    owner: { user_id: owner.userId, username: owner.username, display_name: 'Member', email: owner.email },
    account_owner: { user_id: root.userId, username: root.username, display_name: 'Root', email: root.email },
    region: 'local',
    visibility: 'private',
    user_account_id: api.root.accountId,
    userName: 'Member',
    userEmail: owner.email,
    cpu_count: 1,
    memory_mb: 256,
    storage_gb: 20,
    resources: { cpu: 1, memory: 256, storage: 20, bandwidth: 200 },
    timeout: 3600,
    auto_pause: true,
    secure: true,
    allow_internet_access: true,
    sandbox_domain: `${ids.running}.sandbox.localhost:7081`,
    sandbox_domain_internal: '10.88.0.7:49983',
    web_terminal_available: true,
    web_files_available: true,
    envd_access_token: `token-of-${ids.running}`,
    metadata: { stage: 'running' },
    env_vars: { STAGE: 'running' },
    object_storage: null,
    object_storage_single: null,
    object_storage_direct_mount: false,
    object_storage_s3fs_path: '',
    ports: [template, custom],
    template_ports: [template],
    custom_ports: [custom],
    template_custom_command: 'serve --all',
    template_ready_command: '{"type":"tcpSocket","port":3000}',
    lifecycle_outcome: null,
    persistence_days: 30,
    persistence_expires_at: null,
    persistence_days_remaining: null,
    paused_at: null,
    pausing_at: null,
    stopped_at: null,
    ended_at: null,
    failure: null,
  });
  expect(data.template_id).toMatch(/^tpl-/);
  const row = await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: ids.running });
  expect(data.created_at).toBe(iso(row.createdAt));
  expect(data.updated_at).toBe(iso(row.updatedAt));
  expect(data.started_at).toBe(iso(row.startedAt));
  expect(data.resumed_at).toBe(iso(row.resumedAt));
  expect(data.last_accessed_at).toBe(iso(row.lastAccessedAt));
  expect(data.timeout_at).toBe(iso(row.resumedAt!.getTime() + 3600_000));
});

test("a running sandbox's clocks: finished phases alone, and with the present one", async () => {
  const data = await read(ids.running);
  expect(data.actual_total_running_seconds).toBe(20 * 60);
  expect(data.actual_total_paused_seconds).toBe(30 * 60);
  expect(data.total_paused_seconds).toBe(30 * 60);
  expect(data.total_running_seconds).toBeGreaterThanOrEqual(30 * 60);
  expect(data.total_running_seconds).toBeLessThan(40 * 60);
  expect(data.uptime).toBe(data.total_running_seconds);
  expect(data.remaining_seconds).toBeGreaterThan(40 * 60);
  expect(data.remaining_seconds).toBeLessThanOrEqual(50 * 60);
});

test('a paused sandbox: since when, and until when it is kept', async () => {
  const data = await read(ids.paused);
  const row = await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: ids.paused });
  expect(data).toMatchObject({
    status: 'paused',
    reason: 'auto_pause',
    persistence_days: 30,
    persistence_days_remaining: 30,
  });
  expect(data.paused_at).toBe(iso(row.pausedAt));
  expect(data.persistence_expires_at).toBe(iso(row.pausedAt!.getTime() + 30 * 86_400_000));
  expect(data.total_paused_seconds).toBeGreaterThanOrEqual(30 * 60);
  expect(data.actual_total_paused_seconds).toBe(0);
  expect([data.timeout_at, data.remaining_seconds]).toEqual([null, null]);
  expect([data.web_terminal_available, data.web_files_available]).toEqual([false, false]);
});

test('a pausing and a starting one', async () => {
  const pausing = await read(ids.pausing);
  expect(pausing.status).toBe('pausing');
  expect(Date.now() - Date.parse(pausing.pausing_at)).toBeLessThan(600_000);
  const starting = await read(ids.starting);
  expect(starting).toMatchObject({
    status: 'starting',
    substatus: 'allocating',
    uptime: 0,
    sandbox_domain_internal: null,
  });
});

test('a failed sandbox has its reason', async () => {
  const data = await read(ids.failed);
  expect(data).toMatchObject({
    status: 'failed',
    reason: 'runtime_exited',
    lifecycle_outcome: 'failed',
    failure: { message: 'Its processes ended', exit_code: 137, out_of_memory: true, command_output: 'last words' },
    actual_total_running_seconds: 40 * 60,
  });
  expect(data.ended_at).toBe(data.stopped_at);
});

test('a terminated sandbox stays readable', async () => {
  const data = await read(ids.terminated);
  expect(data).toMatchObject({
    status: 'terminated',
    reason: 'timeout',
    lifecycle_outcome: 'timed_out',
    actual_total_running_seconds: 45 * 60,
    total_running_seconds: 45 * 60,
    uptime: 45 * 60,
  });
  expect(Date.parse(data.ended_at) - Date.parse(data.stopped_at)).toBe(minutes);
});

test('a deleted template: the sandbox keeps its name and shows the deletion', async () => {
  const em = api.orm.em.fork();
  const template = await api.addTemplate({ name: 'short-lived' });
  const made = await api.send(member, 'POST', '/v1/sandboxes', { template });
  await em.execute('delete from templates where template_id = ?', [template]);
  const data = await read(made.body.data.sandbox_id);
  expect([data.template_exists, data.template_name, data.template_id]).toEqual([false, 'short-lived', template]);
  await api.send(member, 'DELETE', `/v1/sandboxes/${made.body.data.sandbox_id}`);
});

test("the list's items equal the object, show the owner only to the account root, and never the token", async () => {
  const mine = await api.send(member, 'GET', '/v1/sandboxes?limit=100');
  expect(mine.text).not.toContain('token-of-');
  for (const id of Object.values(ids)) {
    const item = mine.body.data.sandboxes.find((each: Json) => each.sandbox_id === id);
    const full = await read(id);
    for (const [name, value] of Object.entries(item)) {
      if (name === 'owner_user_id') expect(value).toBe(member.userId);
      else if (name === 'remaining_seconds' || name === 'uptime' || name === 'total_paused_seconds') {
        expect(Math.abs(Number(value) - Number(full[name]))).toBeLessThanOrEqual(120);
      } else expect([id, name, value]).toEqual([id, name, full[name]]);
    }
    expect(item.owner).toBeUndefined();
  }
  const all = await api.send(api.root, 'GET', '/v1/sandboxes?limit=100');
  expect(all.body.data.sandboxes[0].owner.user_id).toBe(member.userId);
});

test('the status route', async () => {
  const reply = await api.send(member, 'GET', `/v1/sandboxes/${ids.starting}/status`);
  const row = await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: ids.starting });
  expect(reply.body.data).toEqual({
    sandbox_id: ids.starting,
    status: 'starting',
    substatus: 'allocating',
    reason: 'user_requested',
    updated_at: iso(row.updatedAt),
  });
});

test('the stats count the listed sandboxes, and show that nothing was measured', async () => {
  const { body } = await api.send(member, 'GET', '/v1/sandboxes/stats');
  expect(body.data).toMatchObject({
    total_sandboxes: 6,
    running_sandboxes: 1,
    terminated_sandboxes: 1,
    failed_sandboxes: 1,
    avg_cpu_usage: null,
    avg_memory_usage: null,
  });
  // 30 (running) + 30 (paused) + 60 (pausing) + 40 (failed) + 45 (terminated) minutes.
  expect(body.data.total_uptime_hours).toBeCloseTo(205 / 60, 1);
});

test.each([
  [{ PLATFORM_GATEWAY_PUBLIC_PORT: '443' }, ''],
  [{ PLATFORM_GATEWAY_PUBLIC_PORT: '8443' }, ':8443'],
  [{ PLATFORM_GATEWAY_PORT: '80' }, ''],
])('the domain has the port that clients use: %j', async (env, port) => {
  const other = await startApi({
    env: { ...env, PLATFORM_BASE_DOMAIN: 'boxes.example.com' } as Record<string, string>,
  });
  try {
    const { body } = await other.send(other.root, 'POST', '/v1/sandboxes');
    expect(body.data.sandbox_domain).toBe(`${body.data.sandbox_id}.boxes.example.com${port}`);
  } finally {
    await other.stop();
  }
});
