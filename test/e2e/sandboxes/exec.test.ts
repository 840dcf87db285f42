import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PlatformClient, type SandboxView } from '../../../ops/development/client/platform-client.ts';
import { ApiReplica } from '../../support/api-replica.ts';
import { inBrowser } from '../../support/browser.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';
import { WebhookReceiver } from '../../support/webhook-receiver.ts';

/** Exec in real containers, through two processes of the API, with a real browser as a reader. */
let platform: RunningPlatform;
let replica: ApiReplica;
let one: PlatformClient;
let two: PlatformClient;
let sandbox: SandboxView;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  replica = await ApiReplica.start(platform.dataDir);
  one = platform.client();
  two = new PlatformClient(replica.url, platform.env.PLATFORM_API_KEY!);
  sandbox = await one.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1, env_vars: { FROM: 'sandbox' } });
}, 180_000);
afterAll(async () => {
  await replica?.stop();
  await platform?.leave();
}, 180_000);

interface Started {
  stream_path: string;
  started_at: string;
  deadline: string;
}

async function start(command: string, more: object = {}, id = sandbox.sandbox_id): Promise<Started> {
  const { status, body } = await one.request('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body as unknown as Started;
}

interface Followed {
  events: { id: string | undefined; type: string; data: Record<string, unknown> }[];
  done: Promise<void>;
}

/** A stream that is read as it arrives. */
async function follow({ stream_path: path }: Started, from = replica.url): Promise<Followed> {
  const [reply] = (await once(http.get(`${from}${path}`), 'response')) as [http.IncomingMessage];
  expect(reply.statusCode).toBe(200);
  reply.on('error', () => undefined);
  const followed: Followed = { events: [], done: new Promise((resolve) => reply.once('close', () => resolve())) };
  let rest = '';
  reply.on('data', (chunk) => {
    const frames = (rest + chunk).split('\n\n');
    rest = frames.pop()!;
    for (const frame of frames) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1];
      followed.events.push({ id: field('id'), type: field('event')!, data: JSON.parse(field('data')!) });
    }
  });
  return followed;
}

const output = ({ events }: Followed) =>
  Buffer.concat(
    events.filter(({ type }) => type === 'stdout').map(({ data }) => Buffer.from(data.data_b64 as string, 'base64')),
  ).toString();
const last = ({ events }: Followed) => events.at(-1);

test('a command runs in the sandbox, started on one replica and read on the other', async () => {
  const followed = await follow(
    await start('echo $FROM $OWN $(hostname) $(id -u); pwd; exit 4', { cwd: '/usr', env: { OWN: 'own' } }),
  );
  await followed.done;
  expect(output(followed)).toBe(`sandbox own ${sandbox.sandbox_id} 0\n/usr\n`);
  expect(last(followed)).toMatchObject({ type: 'end', data: { exit_code: 4 } });
  expect(followed.events.slice(0, 2).map(({ type }) => type)).toEqual(['ready', 'start']);
}, 180_000);

test('values that are too long for the kernel are refused with a code, by the API and by the agent', async () => {
  const exec = async (more: object) => {
    const body = { command: 'true', ...more };
    const reply = await one.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/exec`, body);
    return [reply.status, reply.body.code];
  };
  const paths = [`/nowhere/${'x/'.repeat(2040)}`, `/${'x'.repeat(4089)}`, `/${'ä'.repeat(4095)}`];
  for (const cwd of paths) expect(await exec({ cwd })).toEqual([400, 'invalid_cwd']);
  const tooLong: object[] = [
    { cwd: `/${'x'.repeat(4096)}` },
    { command: 'x'.repeat(200_000) },
    { command: `: ${'ä'.repeat(100_000)}` },
    { env: { A: 'x'.repeat(200_000) } },
    { env: Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`A${index}`, 'x'.repeat(32_000)])) },
    { stdin: 'x'.repeat(200_000) },
  ];
  for (const each of tooLong) expect(await exec(each)).toEqual([400, 'validation_failed']);

  const agent = platform.agent(sandbox);
  const long = 'x'.repeat(200_000);
  const runs: Parameters<typeof agent.run>[] = [
    ['true', [long]],
    [long],
    ['true', [], { envs: { A: long } }],
    ['true', [], { envs: { [long]: 'A' } }],
    ...[...paths, `/${long}`].map((cwd): Parameters<typeof agent.run> => ['true', [], { cwd }]),
  ];
  for (const words of runs) {
    const refusal = await agent.run(...words).catch((error) => Code[error.code]);
    expect(['InvalidArgument', 'NotFound']).toContain(refusal);
  }
  for (const path of [...paths.slice(1), `/${'x'.repeat(300)}`]) {
    const { filesystem } = agent;
    const calls = [filesystem.stat({ path }), filesystem.makeDir({ path }), filesystem.remove({ path })];
    for (const call of calls) {
      const refusal = await call.catch((error) => Code[error.code]);
      expect(['InvalidArgument', 'NotFound']).toContain(refusal);
    }
    const upload = await agent.request(`/upload?path=${encodeURIComponent(path)}`, { method: 'POST', body: 'x' });
    const download = await agent.request(`/download${encodeURI(path)}`);
    for (const { status } of [upload, download]) expect([400, 404, 414, 431]).toContain(status);
  }
  agent.close();
}, 180_000);

test('cancel on the other replica ends all of its processes, including those in other sessions', async () => {
  const agent = platform.agent(sandbox);
  const count = async () => Number((await agent.run('sh', ['-c', 'pgrep -c -f "sleep 98[7]" || true'])).stdout);
  const followed = await follow(await start('sleep 987 & setsid sleep 987 & (setsid setsid sleep 987 &) ; sleep 987'));
  await until(async () => (await count()) === 4);
  const { status, body } = await two.request('DELETE', `/v1/sandboxes/${sandbox.sandbox_id}/exec`);
  expect([status, body]).toEqual([200, { cancelled: true }]);
  expect(await count()).toBe(0);
  await followed.done;
  expect(last(followed)).toMatchObject({ type: 'error', data: { code: 'cancelled' } });
  agent.close();
}, 180_000);

test('a pause freezes the command and keeps its readers; both continue after a resume', async () => {
  const started = await start('i=0; until [ -e /tmp/enough ]; do i=$((i + 1)); echo $i; sleep 0.1; done');
  const followed = await follow(started);
  await until(() => output(followed).includes('3\n'));
  const path = `/v1/sandboxes/${sandbox.sandbox_id}`;
  expect((await one.request('POST', `${path}/pause`, {})).status).toBe(200);
  for (const [method, below] of [
    ['POST', '/exec'],
    ['GET', '/exec/active'],
    ['DELETE', '/exec'],
  ] as const) {
    const { status, body } = await two.request(
      method,
      path + below,
      method === 'POST' ? { command: 'true' } : undefined,
    );
    expect([status, body.code]).toEqual([409, 'sandbox_not_running']);
  }
  // Output from before the pause may still arrive.
  let frozen = '';
  await until(async () => {
    frozen = output(followed);
    await new Promise((resolve) => setTimeout(resolve, 500));
    return output(followed) === frozen;
  });
  expect((await one.request('POST', `${path}/resume`, {})).status).toBe(200);
  await until(() => output(followed).length > frozen.length);
  const agent = platform.agent(sandbox);
  await agent.upload('/tmp/enough', '');
  agent.close();
  await followed.done;
  const lines = output(followed).trim().split('\n');
  expect(lines).toEqual(lines.map((_, index) => `${index + 1}`));
  expect(last(followed)).toMatchObject({ type: 'end', data: { exit_code: 0 } });
}, 180_000);

test('terminating the sandbox ends the stream with an error that gives the reason', async () => {
  const doomed = await one.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1 });
  const followed = await follow(await start('sleep 600', {}, doomed.sandbox_id));
  await until(() => followed.events.length >= 2);
  await two.deleteSandbox(doomed.sandbox_id);
  await followed.done;
  expect(last(followed)).toMatchObject({ type: 'error', data: { code: 'sandbox_ended', message: expect.any(String) } });
}, 180_000);

test('terminating a sandbox that was paused with a command ends the stream, too', async () => {
  const doomed = await one.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1 });
  const followed = await follow(await start('sleep 600', {}, doomed.sandbox_id));
  await until(() => followed.events.length >= 2);
  await one.request('POST', `/v1/sandboxes/${doomed.sandbox_id}/pause`, {});
  await one.deleteSandbox(doomed.sandbox_id);
  await followed.done;
  expect(last(followed)).toMatchObject({ type: 'error', data: { code: 'sandbox_ended' } });
}, 180_000);

test('from inside a sandbox the runner cannot be reached without the platform’s token', async () => {
  const followed = await follow(
    await start('exec 3<>/dev/tcp/127.0.0.1/49983; printf "GET /platform/exec HTTP/1.0\\r\\n\\r\\n" >&3; head -1 <&3'),
  );
  await followed.done;
  expect(output(followed)).toContain(' 404 ');
  const agent = platform.agent(sandbox);
  expect((await agent.request('/platform/exec')).status).toBe(404);
  agent.close();
}, 180_000);

/** A proxy that cuts each connection after so many events of output. The rest of the received data is lost. */
async function cuttingProxy(target: string, cuts: number[]): Promise<net.Server> {
  const { hostname, port } = new URL(target);
  const proxy = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname);
    let limit = Number.POSITIVE_INFINITY;
    let came = Buffer.alloc(0);
    upstream.on('data', (chunk: Buffer) => {
      const passed = came.length;
      came = Buffer.concat([came, chunk]);
      const end = endOfOutput(came.toString('latin1'), limit);
      if (end === null) {
        client.write(chunk);
        return;
      }
      upstream.pause();
      client.end(came.subarray(passed, end), () => upstream.destroy());
    });
    // A browser may open connections without using them.
    client.once('data', () => {
      limit = cuts.shift() ?? limit;
    });
    client.on('data', (chunk) => upstream.write(chunk));
    for (const [side, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      side.on('close', () => other.destroy());
      side.on('error', () => other.destroy());
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return proxy;
}

/** The end of the output event with this number; null: it has not arrived yet. */
function endOfOutput(text: string, count: number): number | null {
  let at = 0;
  for (let found = 0; found < count; found++) {
    const begin = text.indexOf('event: stdout\n', at);
    const end = begin < 0 ? -1 : text.indexOf('\n\n', begin);
    if (end < 0) return null;
    at = end + 2;
  }
  return at;
}

test('a browser’s EventSource reads it from another origin, reconnects after a cut, and misses nothing', async () => {
  const proxy = await cuttingProxy(replica.url, [5, 2]);
  const agent = platform.agent(sandbox);
  proxy.once('connection', () => agent.upload('/tmp/page-is-there', ''));
  const { stream_path: path } = await start(
    `until [ -e /tmp/page-is-there ]; do sleep 0.05; done
     for i in $(seq 1 40); do echo line $i; sleep 0.2; done; echo bad >&2; exit 7`,
  );
  const log = await inBrowser<{ type: string; id: string; data: string; opens: number }[]>(`
    const log = [];
    let opens = 0;
    const source = new EventSource('http://127.0.0.1:${(proxy.address() as AddressInfo).port}${path}');
    source.onopen = () => { opens++; };
    for (const type of ['ready', 'start', 'stdout', 'stderr', 'keepalive', 'end', 'error']) {
      source.addEventListener(type, (event) => {
        if (event instanceof MessageEvent) log.push({ type, id: event.lastEventId, data: event.data, opens });
        // It reconnects once by itself, gets the reply that nothing follows, and stops.
        else if (source.readyState === EventSource.CLOSED) tell(log);
      });
    }
  `);
  proxy.close();
  agent.close();
  const text = (type: string) =>
    log
      .filter((each) => each.type === type)
      .map(({ data }) => Buffer.from(JSON.parse(data).data_b64, 'base64').toString())
      .join('');
  if (process.env.SHOW_BROWSER_LOG) for (const each of log) process.stdout.write(`${JSON.stringify(each)}\n`);
  expect(text('stdout')).toBe(Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join(''));
  expect(text('stderr')).toBe('bad\n');
  expect(log.at(-1)).toMatchObject({ type: 'end', data: '{"exit_code":7}', opens: 3 });
  expect(log.filter(({ type }) => type === 'ready').map(({ opens }) => opens)).toEqual([1, 2, 3]);
}, 180_000);

test('the end of a command without readers is sent to a webhook', async () => {
  const receiver = await WebhookReceiver.start();
  const wanted = { url: receiver.url, event_types: ['exec.finished'] };
  const subscribed = await one.request<{ endpoint_id: string }>('POST', '/v1/webhooks', wanted);
  expect(subscribed.status).toBe(201);
  const { started_at: startedAt } = await start('sleep 1; exit 4');
  await until(() => receiver.received.length > 0);
  expect(JSON.parse(receiver.received[0]!.body)).toMatchObject({
    type: 'exec.finished',
    data: { sandbox_id: sandbox.sandbox_id, started_at: startedAt, exit_code: 4, error: null, sequence: 1 },
  });
  await one.request('DELETE', `/v1/webhooks/${subscribed.body.data.endpoint_id}`);
  await receiver.stop();
});
