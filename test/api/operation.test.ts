import net from 'node:net';
import { User } from '../../db/accounts/user.entity.ts';
import type { TaskQueueAge } from '../../platform/temporal/task-queue-ages.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { startApi, type TestApi } from './test-api.ts';

describe('probes', () => {
  let api: TestApi;
  const state = { postgres: 'ok', temporal: 'ok' } as Record<string, 'ok' | 'down' | 'stuck'>;
  let ages: TaskQueueAge[] = [];
  beforeAll(async () => {
    const check = (name: string) => ({
      name,
      check: async () => {
        if (state[name] === 'down') throw new Error('connection refused by 10.1.2.3');
        if (state[name] === 'stuck') await new Promise(() => {});
      },
    });
    api = await startApi({ readiness: [check('postgres'), check('temporal')], readTaskQueueAges: async () => ages });
  });
  afterAll(() => api.stop());

  test('the process is up', async () => {
    const reply = await api.send(null, 'GET', '/healthz');
    expect([reply.status, reply.body]).toEqual([200, { status: 'ok' }]);
  });

  test('it is ready when everything can be reached, and otherwise names the part, without the reason', async () => {
    const ready = await api.send(null, 'GET', '/readyz');
    const checks = { postgres: 'ok', temporal: 'ok' };
    expect([ready.status, ready.body]).toEqual([200, { status: 'ready', checks, queues: {} }]);
    state.temporal = 'down';
    const down = await api.send(null, 'GET', '/readyz');
    expect(down.status).toBe(503);
    expect(down.body).toMatchObject({ status: 'unavailable', checks: { postgres: 'ok', temporal: 'unavailable' } });
    expect(down.text).not.toContain('10.1.2.3');
    state.temporal = 'stuck';
    const startedAt = Date.now();
    expect((await api.send(null, 'GET', '/readyz')).status).toBe(503);
    expect(Date.now() - startedAt).toBeLessThan(30_000);
    state.temporal = 'ok';
    expect((await api.send(null, 'GET', '/readyz')).status).toBe(200);
  });

  test('it says which queue of the control workers is behind, and still answers requests', async () => {
    ages = [
      { work: 'sandboxes', kind: 'workflow', oldestSeconds: 61.4, pollers: 1 },
      { work: 'sandboxes', kind: 'activity', oldestSeconds: 0, pollers: 1 },
      { work: 'webhooks', kind: 'workflow', oldestSeconds: 3, pollers: 1 },
    ];
    const { status, body } = await api.send(null, 'GET', '/readyz');
    expect([status, body.status]).toEqual([200, 'behind']);
    expect(body.queues).toEqual({
      sandboxes: { state: 'behind', oldest_task_seconds: 61 },
      webhooks: { state: 'ok', oldest_task_seconds: 3 },
    });
    ages = [];
  });

  test('metrics count requests by route and status, not by URL', async () => {
    const made = await api.send(api.root, 'POST', '/v1/sandboxes');
    await api.send(api.root, 'GET', `/v1/sandboxes/${made.body.data.sandbox_id}`);
    await api.send(api.root, 'GET', '/v1/sandboxes/sbx-none');
    const { status, headers, text } = await api.send(api.root, 'GET', '/metrics');
    expect(status).toBe(200);
    expect(headers['content-type']).toMatch(/^text\/plain; version=/);
    const count = (route: string, code: number) =>
      text.match(
        new RegExp(`http_request_duration_seconds_count\\{method="GET",route="${route}",status="${code}"\\} (\\d+)`),
      )?.[1];
    expect(count('/v1/sandboxes/:sandbox_id', 200)).toBe('1');
    expect(count('/v1/sandboxes/:sandbox_id', 404)).toBe('1');
    expect(text).not.toContain('sbx-');
    expect(text).toContain('process_resident_memory_bytes');
    expect(text).toMatch(/^outbox_entries\{state="waiting"\} [1-9]\d*$/m);
    expect(text).toContain('outbox_entries{state="dead"} 0');
  });
});

test.each([[{ PLATFORM_API_HOST: '0.0.0.0' }], [{ PLATFORM_API_HOST: '127.0.0.1' }]])(
  "metrics ask for an operator's key, on loopback too: %j",
  async (env) => {
    const api = await startApi({ env: env as Record<string, string> });
    try {
      expect((await api.send(null, 'GET', '/metrics')).status).toBe(401);
      const member = await api.addUser(api.root);
      const refused = await api.send(member, 'GET', '/metrics');
      expect([refused.status, refused.body.code]).toEqual([403, 'admin_required']);
      expect((await api.send(api.root, 'GET', '/metrics')).status).toBe(200);
      await api.orm.em.fork().nativeUpdate(User, { userId: member.userId }, { role: 'admin' });
      expect((await api.send(member, 'GET', '/metrics')).status).toBe(200);
    } finally {
      await api.stop();
    }
  },
);

test('while Postgres is down requests are 503, and later they succeed again', async () => {
  const proxy = await startProxy();
  const api = await startApi({ throughUrl: proxy.through });
  try {
    expect((await api.send(api.root, 'GET', '/v1/users/me')).status).toBe(200);
    await proxy.cut();
    for (const [method, url] of [
      ['GET', '/v1/users/me'],
      ['POST', '/v1/sandboxes'],
    ] as const) {
      const reply = await api.send(api.root, method, url);
      expect([reply.status, reply.body.code]).toEqual([503, 'temporarily_unavailable']);
      expect(reply.text).not.toMatch(/ECONN|127\.0\.0\.1/);
    }
    expect((await api.send(null, 'GET', '/healthz')).status).toBe(200);
    await proxy.restore();
    await until(async () => (await api.send(api.root, 'GET', '/v1/users/me')).status === 200);
  } finally {
    await api.stop();
    await proxy.cut();
  }
});

/** A proxy between the API and Postgres that can be interrupted. */
async function startProxy() {
  const sockets = new Set<net.Socket>();
  let target = { host: '', port: 0 };
  const server = net.createServer((client) => {
    const upstream = net.connect(target.port, target.host);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(upstream).pipe(client);
  });
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const port = await freePort();
  await listen(port);
  return {
    through(url: string) {
      const parsed = new URL(url);
      target = { host: parsed.hostname, port: Number(parsed.port) };
      parsed.hostname = '127.0.0.1';
      parsed.port = String(port);
      return parsed.href;
    },
    async cut() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    restore: () => listen(port),
  };
}
