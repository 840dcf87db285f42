import { createHmac } from 'node:crypto';
import { Host } from '../../../db/hosts/host.entity.ts';
import { offerUdpPorts } from '../../../db/hosts/hosts.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { addHost, type Caller, startApi, type TestApi } from '../test-api.ts';

const turnSecret = 'the-shared-secret-of-the-test';
const turnEnv = { PLATFORM_TURN_SECRET: turnSecret, PLATFORM_TURN_PUBLIC_HOST: 'turn.example.com' };
const udpRange = { first: 20_000, last: 20_003 };
const templatePorts = [
  { port: 3000, servicePort: 3001, protocol: 'TCP' as const, name: 'app', isProtected: true },
  { port: 4000, servicePort: 4000, protocol: 'TCP' as const, name: 'docs', isProtected: false },
  { port: 5353, servicePort: 5353, protocol: 'UDP' as const, name: 'dns', isProtected: false },
];

let api: TestApi;
let hostId: string;
let template: string;

beforeAll(async () => {
  api = await startApi({ planName: 'pro', env: turnEnv });
  hostId = (await api.orm.em.fork().findOneOrFail(Host, { region: 'local' })).hostId;
  await offerUdpPorts(api.orm.em, hostId, { publicAddress: '203.0.113.7', ports: udpRange });
  template = await api.addTemplate({ name: 'with-ports', ports: templatePorts });
});
afterEach(async () => {
  api.commands.failNext = null;
  const { body } = await api.send(api.root, 'GET', '/v1/sandboxes?limit=100');
  for (const item of body.data.sandboxes) await api.send(api.root, 'DELETE', `/v1/sandboxes/${item.sandbox_id}`);
});
afterAll(() => api.stop());

async function make(body: object = {}): Promise<SandboxId> {
  const reply = await api.send(api.root, 'POST', '/v1/sandboxes', body);
  expect([reply.status, reply.body.error]).toEqual([201, undefined]);
  return reply.body.data.sandbox_id;
}
const list = async (id: string): Promise<Json> =>
  (await api.send(api.root, 'GET', `/v1/sandboxes/${id}/ports`)).body.data;
const add = (id: string, body: unknown, more = {}) =>
  api.send(api.root, 'POST', `/v1/sandboxes/${id}/ports`, body, more);
const remove = (id: string, port: unknown) => api.send(api.root, 'DELETE', `/v1/sandboxes/${id}/ports/${port}`);
const outcome = (reply: Json) => [reply.status, reply.body.code];
const read = async (id: string): Promise<Json> => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body.data;
const row = (id: SandboxId) => api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: id });

const app = { port: 3000, service_port: 3001, protocol: 'TCP', name: 'app', is_protected: true };
const docs = { port: 4000, service_port: 4000, protocol: 'TCP', name: 'docs', is_protected: false };
const web = { port: 8080, service_port: 8080, protocol: 'TCP', name: 'web', is_protected: false };
const inRange = /^203\.0\.113\.7:2000[0-3]$/;

describe('ports', () => {
  test("the list is the template's and the sandbox's own", async () => {
    const id = await make({ template, custom_ports: [{ port: 8080, name: 'web' }] });
    const dns = { port: 5353, service_port: 5353, protocol: 'UDP', name: 'dns', is_protected: false };
    const { host_port: hostPort } = (await list(id)).template_ports[2];
    expect(hostPort).toMatch(inRange);
    const templates = [app, docs, { ...dns, host_port: hostPort }];
    const lists = { ports: [...templates, web], template_ports: templates, custom_ports: [web] };
    expect(await list(id)).toEqual(lists);
    expect(await read(id)).toMatchObject(lists);
    await api.commands.terminate(await row(id), { forget: false });
    expect((await list(id)).ports[2]).toEqual({ ...dns, host_port: null });
  });

  test('a port is added with defaults, and removed', async () => {
    const id = await make();
    const added = await add(id, { port: 8080, name: 'web', service_port: 0 });
    expect(added).toMatchObject({ status: 200, body: { data: { port: web }, message: 'Port 8080 is open' } });
    const asked = { port: 9000, name: 'Ünï <api> 👍', protocol: 'WEBRTC', service_port: 9001, is_protected: true };
    const { body } = await add(id, asked);
    expect(body.data.port).toEqual(asked);
    expect(await list(id)).toEqual({ ports: [web, asked], template_ports: [], custom_ports: [web, asked] });
    const removed = await remove(id, 8080);
    expect([removed.status, removed.body.data, removed.body.message]).toEqual([200, undefined, 'Port 8080 is closed']);
    expect((await list(id)).ports).toEqual([asked]);
    expect(outcome(await remove(id, 8080))).toEqual([404, 'not_found']);
  });

  test.each([
    [{}, 'port'],
    [{ name: 'a' }, 'port'],
    [{ port: 80 }, 'name'],
    [{ port: 0, name: 'a' }, 'port'],
    [{ port: 65_536, name: 'a' }, 'port'],
    [{ port: 80.5, name: 'a' }, 'port'],
    [{ port: '80', name: 'a' }, 'port'],
    [{ port: 80, name: '' }, 'name'],
    [{ port: 80, name: 'a'.repeat(16) }, 'name'],
    [{ port: 80, name: 'a\nb' }, 'name'],
    [{ port: 80, name: 'a', protocol: 'SCTP' }, 'protocol'],
    [{ port: 80, name: 'a', service_port: -1 }, 'service_port'],
    [{ port: 80, name: 'a', is_protected: 'yes' }, 'is_protected'],
  ])('%j is 400 and names the field', async (body, path) => {
    const id = await make();
    const reply = await add(id, body);
    expect(outcome(reply)).toEqual([400, 'validation_failed']);
    expect(reply.body.details.map((item: { path: string }) => item.path)).toContain(path);
    expect((await list(id)).ports).toEqual([]);
  });

  test('the edges are allowed: 65535, a name of 15', async () => {
    const id = await make();
    expect((await add(id, { port: 65_535, name: 'a'.repeat(15), protocol: null })).status).toBe(200);
    expect((await add(id, { port: 1, name: 'b' })).status).toBe(200);
  });

  test('numbers and names are unique, including the template’s', async () => {
    const id = await make({ template, custom_ports: [{ port: 8080, name: 'web' }] });
    for (const port of [8080, 3000, 4000])
      expect(outcome(await add(id, { port, name: 'x' }))).toEqual([409, 'port_taken']);
    for (const name of ['web', 'app'])
      expect(outcome(await add(id, { port: 99, name }))).toEqual([409, 'port_name_taken']);
  });

  test('a template’s port cannot be removed, nor one with an invalid number', async () => {
    const id = await make({ template });
    for (const port of [3000, 4000]) expect(outcome(await remove(id, port))).toEqual([409, 'port_of_template']);
    for (const port of [0, 65_536, 'web']) expect(outcome(await remove(id, port))).toEqual([400, 'validation_failed']);
    expect((await list(id)).ports).toHaveLength(3);
  });

  test('a sandbox may have 64 ports of its own', async () => {
    const custom = Array.from({ length: 64 }, (_, at) => ({ port: 10_000 + at, name: `p${at}` }));
    const id = await make({ custom_ports: custom });
    expect(outcome(await add(id, { port: 1, name: 'more' }))).toEqual([409, 'port_limit_reached']);
  });

  test('at create, a port that would weaken or shadow the template’s is 400; an open one may be replaced', async () => {
    const create = (custom: object) =>
      api.send(api.root, 'POST', '/v1/sandboxes', { template, custom_ports: [custom] });
    for (const [custom, path] of [
      [{ port: 3000, name: 'mine' }, 'custom_ports.0.port'],
      [{ port: 9999, name: 'docs' }, 'custom_ports.0.name'],
    ] as const) {
      const reply = await create(custom);
      expect([...outcome(reply), reply.body.details[0].path]).toEqual([400, 'validation_failed', path]);
    }
    const id = (await create({ port: 4000, name: 'docs', protocol: 'WEBRTC' })).body.data.sandbox_id;
    expect((await list(id)).ports.map((item: Json) => [item.port, item.protocol])).toEqual([
      [3000, 'TCP'],
      [5353, 'UDP'],
      [4000, 'WEBRTC'],
    ]);
    expect((await remove(id, 4000)).status).toBe(200);
    expect((await list(id)).ports.map((item: Json) => item.protocol)).toEqual(['TCP', 'TCP', 'UDP']);
  });

  test('ports of a sandbox that does not run are listed and cannot be changed', async () => {
    const id = await make({ custom_ports: [{ port: 8080, name: 'web' }] });
    await api.commands.pause(await row(id), { wait: true });
    expect(outcome(await add(id, { port: 80, name: 'a' }))).toEqual([409, 'sandbox_not_running']);
    expect(outcome(await remove(id, 8080))).toEqual([409, 'sandbox_not_running']);
    expect((await list(id)).ports).toEqual([web]);
  });

  test('the same Idempotency-Key gives the first reply again', async () => {
    const id = await make();
    const headers = { 'idempotency-key': 'one' };
    const first = await add(id, { port: 80, name: 'a' }, { headers });
    const again = await add(id, { port: 80, name: 'a' }, { headers });
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(outcome(await add(id, { port: 81, name: 'b' }, { headers }))).toEqual([409, 'idempotency_key_reused']);
  });

  test('another account’s sandbox is not found, and requests without a key are refused', async () => {
    const id = await make();
    const other: Caller = await api.addAccount();
    for (const caller of [other, null]) {
      const expected = caller ? [404, 'not_found'] : [401, 'unauthenticated'];
      const send = (method: string, path: string, body?: unknown) =>
        api.send(caller, method, `/v1/sandboxes/${id}/${path}`, body);
      expect(outcome(await send('GET', 'ports'))).toEqual(expected);
      expect(outcome(await send('POST', 'ports', { port: 1, name: 'a' }))).toEqual(expected);
      expect(outcome(await send('DELETE', 'ports/1'))).toEqual(expected);
      expect(outcome(await send('GET', 'webrtc-turn-credential'))).toEqual(expected);
    }
    expect(outcome(await add('sbx-nothing', { port: 1, name: 'a' }))).toEqual([404, 'not_found']);
  });

  test.each([
    ['no_capacity', 503],
    ['temporarily_unavailable', 503],
    ['too_many_requests', 429],
    ['account_suspended', 403],
    ['sandbox_not_running', 409],
  ] as const)('a change refused with %s answers %d', async (code, status) => {
    const id = await make();
    api.commands.failNext = new AppError(code, 'why');
    expect(outcome(await add(id, { port: 1, name: 'a' }))).toEqual([status, code]);
    if (code === 'no_capacity') return;
    api.commands.failNext = new AppError(code, 'why');
    expect(outcome(await remove(id, 1))).toEqual([status, code]);
  });
});

describe('UDP', () => {
  const udp = (port: number) => ({ port, name: `u${port}`, protocol: 'UDP' });

  test('each port gets one of its host’s, which is freed with it, and none is assigned twice', async () => {
    const id = await make({ custom_ports: [udp(53), udp(54)] });
    const third = await add(id, { ...udp(55), service_port: 5000 });
    expect(third.body.data.port).toEqual({
      ...udp(55),
      service_port: 5000,
      is_protected: false,
      host_port: expect.stringMatching(inRange),
    });
    const other = await make({ custom_ports: [udp(53)] });
    const given = [...(await list(id)).ports, ...(await list(other)).ports].map((item: Json) => item.host_port);
    expect(new Set(given).size).toBe(4);
    for (const address of given) expect(address).toMatch(inRange);
    expect(outcome(await add(other, udp(54)))).toEqual([503, 'no_capacity']);
    expect(outcome(await api.send(api.root, 'POST', '/v1/sandboxes', { custom_ports: [udp(1)] }))).toEqual([
      503,
      'no_capacity',
    ]);
    expect((await list(other)).custom_ports).toHaveLength(1);

    await remove(id, 54);
    expect((await add(other, udp(54))).body.data.port.host_port).toBe(given[1]);
    await api.send(api.root, 'POST', `/v1/sandboxes/${other}/terminate`);
    expect((await list(other)).ports.map((item: Json) => item.host_port)).toEqual([null, null]);
    expect((await make({ custom_ports: [udp(53), udp(54)] })).length).toBeGreaterThan(0);
  });

  test('a pause keeps the ports', async () => {
    const id = await make({ custom_ports: [udp(53)] });
    const before = (await list(id)).ports;
    await api.commands.pause(await row(id), { wait: true });
    expect((await list(id)).ports).toEqual(before);
    await api.commands.resume(await row(id), { wait: true });
    expect((await list(id)).ports).toEqual(before);
  });

  test('a start on another host uses one of that host’s', async () => {
    const id = (await api.send(api.root, 'POST', '/v1/sandboxes', { custom_ports: [udp(53)], is_async: true })).body
      .data.sandbox_id;
    expect((await list(id)).ports[0].host_port).toMatch(inRange);
    const other = await addHost(api.orm, 'local', 1000);
    await offerUdpPorts(api.orm.em, other, { publicAddress: '203.0.113.9', ports: { first: 30_000, last: 30_000 } });
    await api.commands.life.placeAgain(id);
    expect((await list(id)).ports[0].host_port).toBe('203.0.113.9:30000');
    await api.orm.em.fork().nativeUpdate(Host, { hostId: other }, { leaseExpiresAt: new Date(0) });
  });

  test('as many concurrent adds succeed as there are ports, each with a different one', async () => {
    const ids = await Promise.all(Array.from({ length: 6 }, () => make()));
    const replies = await Promise.all(ids.map((id) => add(id, udp(53))));
    const given = replies.filter((reply) => reply.status === 200).map((reply) => reply.body.data.port.host_port);
    expect(given).toHaveLength(4);
    expect(new Set(given).size).toBe(4);
    expect(replies.filter((reply) => reply.body.code === 'no_capacity')).toHaveLength(2);
  });

  test('hosts have their own ranges: one without a range gets no such sandboxes', async () => {
    // It is fuller, so it would be chosen otherwise.
    const small = await addHost(api.orm, 'local', 4);
    const first = await make({ cpu_count: 1 });
    expect((await row(first)).hostId).toBe(small);
    expect((await row(await make({ custom_ports: [udp(53)] }))).hostId).toBe(hostId);
    const refused = await add(first, udp(53));
    expect([...outcome(refused), refused.headers['retry-after']]).toEqual([503, 'no_capacity', '30']);
    await offerUdpPorts(api.orm.em, small, { publicAddress: '203.0.113.8', ports: { first: 20_000, last: 20_000 } });
    expect((await add(first, udp(53))).body.data.port.host_port).toBe('203.0.113.8:20000');
    await api.orm.em.fork().nativeUpdate(Host, { hostId: small }, { leaseExpiresAt: new Date(0) });
  });
});

describe('TURN', () => {
  const readCredential = (id: string) => api.send(api.root, 'GET', `/v1/sandboxes/${id}/webrtc-turn-credential`);

  test('a credential is derived from expiry, sandbox and secret, and the secret itself is nowhere', async () => {
    const id = await make({ custom_ports: [{ port: 7000, name: 'call', protocol: 'WEBRTC' }] });
    const { status, body, headers, text } = await readCredential(id);
    expect(status).toBe(200);
    expect(headers['cache-control']).toBe('no-store');
    const { username, credential, ...rest } = body.data;
    const [expiry, sandboxId] = username.split(':');
    expect(sandboxId).toBe(id);
    expect(Math.abs(Number(expiry) - Date.now() / 1000 - 86_400)).toBeLessThan(30);
    expect(credential).toBe(createHmac('sha1', turnSecret).update(username).digest('base64'));
    const urls = [
      'stun:turn.example.com:3478',
      'turn:turn.example.com:3478?transport=udp',
      'turn:turn.example.com:3478?transport=tcp',
    ];
    expect(rest).toEqual({
      ice_servers: [{ urls, username, credential }],
      turn_public_host: 'turn.example.com',
      turn_public_port: 3478,
    });
    const full = await read(id);
    expect(full.webrtc_turn).toEqual({ turn_public_host: 'turn.example.com', turn_public_port: 3478, ports: [7000] });
    expect(`${text}${JSON.stringify(full)}${api.log.join('\n')}`).not.toContain(turnSecret);
  });

  test('a sandbox without a WEBRTC port, or one that does not run, has none', async () => {
    const id = await make();
    expect(outcome(await readCredential(id))).toEqual([409, 'webrtc_port_required']);
    expect((await read(id)).webrtc_turn).toBeUndefined();
    await add(id, { port: 7000, name: 'call', protocol: 'WEBRTC' });
    expect((await readCredential(id)).status).toBe(200);
    await api.commands.pause(await row(id), { wait: true });
    expect(outcome(await readCredential(id))).toEqual([409, 'sandbox_not_running']);
  });

  test('a platform without a TURN server has its own error', async () => {
    const without = await startApi();
    try {
      const made = await without.send(without.root, 'POST', '/v1/sandboxes', {
        custom_ports: [{ port: 7000, name: 'call', protocol: 'WEBRTC' }],
      });
      const path = `/v1/sandboxes/${made.body.data.sandbox_id}`;
      const reply = await without.send(without.root, 'GET', `${path}/webrtc-turn-credential`);
      expect(outcome(reply)).toEqual([503, 'turn_not_configured']);
      expect((await without.send(without.root, 'GET', path)).body.data.webrtc_turn).toBeUndefined();
    } finally {
      await without.stop();
    }
  });

  test('a secret without an address, a wrong range of ports, or an address that is not IPv4, is refused at start', async () => {
    await expect(startApi({ env: { PLATFORM_TURN_SECRET: turnSecret } })).rejects.toThrow(/PLATFORM_TURN_SECRET: and/);
    await expect(startApi({ env: { PLATFORM_HOST_PUBLIC_ADDRESS: '2001:db8::1' } })).rejects.toThrow(/an IPv4 address/);
    for (const range of ['5-4', '0-9', '1-65536', 'many']) {
      await expect(startApi({ env: { PLATFORM_UDP_PORTS: range } })).rejects.toThrow(/PLATFORM_UDP_PORTS: must be/);
    }
  });
});
