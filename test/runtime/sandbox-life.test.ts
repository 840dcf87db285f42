import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import type { CreatePhase, SandboxSpec } from '../../runtime/driver.ts';
import { until } from '../support/until.ts';
import { LocalHost, nothing, shell } from './local-host.ts';

let host: LocalHost;
beforeAll(async () => {
  host = await LocalHost.open();
}, 300_000);
afterAll(() => host.close());

afterEach(async () => {
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
});

const create = async (overrides: Partial<SandboxSpec> = {}) => {
  const spec = host.spec(overrides);
  return { spec, place: await host.driver.create(spec) };
};
const readState = async ({ sandboxId }: SandboxSpec) => (await host.driver.inspect(sandboxId)).state;

test('a sandbox is created, runs commands, pauses, resumes, stops and is removed', async () => {
  const spec = host.spec();
  const phases: CreatePhase[] = [];
  expect(await readState(spec)).toBe('absent');
  const place = await host.driver.create(spec, { onPhase: (phase) => void phases.push(phase) });
  expect(place).toEqual({ address: expect.stringMatching(/^10\./), agentPort: 49983, from: 'cold' });
  expect(phases).toEqual(['deploying', 'initializing', 'waiting_ready']);
  expect(await readState(spec)).toBe('running');
  expect(await shell(place, spec, 'echo "$GREETING from $(hostname)"; exit 3')).toEqual({
    exitCode: 3,
    output: `hello from ${spec.sandboxId}`,
  });

  await host.driver.pause(spec.sandboxId);
  expect(await readState(spec)).toBe('paused');
  await host.driver.pause(spec.sandboxId);
  expect(await host.driver.resume(spec)).toEqual({ ...place, from: 'thaw' });
  expect(await readState(spec)).toBe('running');
  expect(await host.driver.resume(spec)).toEqual({ ...place, from: 'existing' });

  await host.driver.stop(spec.sandboxId);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', place: null, exit: null });
  await host.driver.stop(spec.sandboxId);
  await host.driver.remove(spec.sandboxId);
  expect(await readState(spec)).toBe('absent');
  await host.driver.remove(spec.sandboxId);
  await host.driver.stop(spec.sandboxId);
  expect(await host.driver.list()).toEqual([]);
});

test('a paused sandbox does not run and keeps its memory', async () => {
  const { spec, place } = await create();
  await shell(
    place,
    spec,
    'nohup sh -c "while :; do date +%s%3N; sleep 0.02; done" >/dev/shm/times & until [ -s /dev/shm/times ]; do sleep 0.02; done',
  );
  await host.driver.pause(spec.sandboxId);
  const pausedAt = Date.now();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const resumedAt = Date.now();
  await host.driver.resume(spec);
  const goesOn = 'seen=$(wc -l </dev/shm/times); until [ $(wc -l </dev/shm/times) -gt $seen ]; do sleep 0.02; done';
  const { output } = await shell(place, spec, `${goesOn}; cat /dev/shm/times`);
  const times = output.split('\n').map(Number);
  expect(times.filter((time) => time < pausedAt)).not.toEqual([]);
  expect(times.filter((time) => time > pausedAt + 5 && time < resumedAt - 5)).toEqual([]);
  expect(times.filter((time) => time > resumedAt)).not.toEqual([]);
});

test('creating an existing sandbox returns the same place, and resumes it when it is paused', async () => {
  const { spec, place } = await create();
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });
  await host.driver.pause(spec.sandboxId);
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });
  expect(await readState(spec)).toBe('running');
});

test('the disk outlives the processes', async () => {
  const { spec, place } = await create();
  await shell(place, spec, 'echo kept >/root/note; mkdir /srv/made; chown 1000:1000 /srv/made');
  await host.driver.stop(spec.sandboxId);
  const again = await host.driver.resume(spec);
  expect(again.from).toBe('cold');
  expect(await shell(again, spec, 'cat /root/note; stat -c %u:%g /srv/made')).toEqual({
    exitCode: 0,
    output: 'kept\n1000:1000',
  });
});

test('space of deleted files is freed on the host', async () => {
  const { spec, place } = await create();
  const disk = path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'disk.ext4');
  const usedMb = () => (statSync(disk).blocks * 512) / 1024 ** 2;
  await shell(place, spec, 'head -c 300M /dev/urandom >/root/big; sync');
  expect(usedMb()).toBeGreaterThan(300);
  await shell(place, spec, 'rm /root/big; sync');
  // The kernel discards freed blocks after a commit of the journal. Blocks in partly used groups may follow later.
  await until(() => usedMb() < 150, 100_000);
}, 130_000);

test('a sandbox whose disk is lost cannot be resumed', async () => {
  await expect(host.driver.resume(host.spec())).rejects.toMatchObject({ code: 'sandbox_absent' });
});

test('its command runs with its environment', async () => {
  const { spec, place } = await create({
    env: { WHO: 'world' },
    command: { entrypoint: ['/bin/sh', '-c'], cmd: ['echo "hello $WHO"; exec sleep 60'] },
  });
  const state = async () =>
    (await fetch(`http://${place.address}:${place.agentPort}/platform/state`, {
      headers: { 'x-platform-token': spec.platformToken },
    }).then((reply) => reply.json())) as { command: { running: boolean; outputTail: string } };
  await until(async () => Boolean((await state()).command.outputTail));
  const { command } = await state();
  expect(command.running).toBe(true);
  expect(Buffer.from(command.outputTail, 'base64').toString()).toBe('hello world\n');
});

test.each([
  ['exit 7', 7, ''],
  ['echo broken; exit 7', 7, 'broken\n'],
  ['/no/such/program', 127, expect.stringContaining('/no/such/program')],
])('a command that fails at once fails the start: %s', async (command, exitCode, commandOutput) => {
  const spec = host.spec({ command: { entrypoint: ['/bin/sh', '-c'], cmd: [command] } });
  await expect(host.driver.create(spec)).rejects.toMatchObject({
    code: 'runtime_exited',
    message: `The command of the template ended with ${exitCode}`,
    exit: { sandboxId: spec.sandboxId, exitCode, commandOutput },
  });
});

test('a program that is not there fails the start, also before the ready command succeeds', async () => {
  const spec = host.spec({
    command: { entrypoint: ['/no/such/program'], cmd: [] },
    readyProbe: {
      ...{ type: 'tcpSocket', port: 1, initialDelaySeconds: 0, periodSeconds: 0.1, timeoutSeconds: 1 },
      failureThreshold: 100,
    },
  });
  const exit = { exitCode: 127, commandOutput: expect.stringContaining('ENOENT') };
  await expect(host.driver.create(spec)).rejects.toMatchObject({ code: 'runtime_exited', exit });
});

test('a command that ends with 0 does not end its sandbox', async () => {
  const { spec } = await create({ command: { entrypoint: ['/bin/true'], cmd: [] } });
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running' });
});

describe('readiness', () => {
  const times = { initialDelaySeconds: 0, periodSeconds: 0.1, timeoutSeconds: 1, failureThreshold: 600 };
  const server = (port: number, status: number, address = '0.0.0.0') => ({
    entrypoint: ['/.platform/bin/node', '-e'],
    cmd: [
      `setTimeout(() => http.createServer((q, r) => r.writeHead(q.url === '/up' ? ${status} : 404).end()).listen(${port}, '${address}'), 200)`,
    ],
  });

  test('waits for a command to succeed', async () => {
    const { spec, place } = await create({
      command: { entrypoint: ['/bin/sh', '-c'], cmd: ['sleep 0.3; touch /tmp/up; exec sleep 60'] },
      readyProbe: { type: 'exec', command: ['test', '-e', '/tmp/up'], ...times },
    });
    expect((await shell(place, spec, 'test -e /tmp/up')).exitCode).toBe(0);
  });

  test('waits for a page', async () => {
    const { place } = await create({
      command: server(8000, 204),
      readyProbe: { type: 'httpGet', scheme: 'HTTP', path: '/up', port: 8000, ...times },
    });
    expect((await fetch(`http://${place.address}:8000/up`)).status).toBe(204);
  });

  test('waits for a port', async () => {
    const { place } = await create({
      command: server(9000, 200),
      readyProbe: { type: 'tcpSocket', port: 9000, ...times },
    });
    expect((await fetch(`http://${place.address}:9000/up`)).status).toBe(200);
  });

  test.each(['127.0.0.1', '::1'])(
    'waits for a page and a port of a server that listens only on %s',
    async (address) => {
      await create({
        command: server(8000, 204, address),
        readyProbe: { type: 'httpGet', scheme: 'HTTP', path: '/up', port: 8000, ...times },
      });
      await create({ command: server(9000, 200, address), readyProbe: { type: 'tcpSocket', port: 9000, ...times } });
      expect(await host.driver.list()).toHaveLength(2);
    },
  );

  test.each([
    { type: 'exec' as const, command: ['false'] },
    { type: 'httpGet' as const, scheme: 'HTTP' as const, path: '/down', port: 8000 },
    { type: 'tcpSocket' as const, port: 1 },
  ])('a sandbox that never becomes ready ($type) fails and leaves nothing running', async (probe) => {
    const spec = host.spec({ command: server(8000, 200), readyProbe: { ...probe, ...times, failureThreshold: 3 } });
    await expect(host.driver.create(spec)).rejects.toMatchObject({ code: 'not_ready' });
    const { folders: _, firewall: __, ...running } = await host.inventory();
    const { folders: ___, ...expected } = nothing;
    expect(running).toEqual(expected);
  });
});

test.each(['deploying', 'initializing', 'waiting_ready'] as const)('a create is cancelled while %s', async (phase) => {
  const spec = host.spec({
    readyProbe: {
      type: 'exec',
      command: ['sleep', '60'],
      initialDelaySeconds: 0,
      periodSeconds: 1,
      timeoutSeconds: 60,
      failureThreshold: 3,
    },
  });
  const cancel = new AbortController();
  const creating = host.driver.create(spec, {
    signal: cancel.signal,
    onPhase: (reached) => {
      if (reached === phase) cancel.abort();
    },
  });
  await expect(creating).rejects.toMatchObject({ code: 'aborted' });
  expect(await readState(spec)).not.toBe('running');
});

test('stopping a sandbox cancels its create', async () => {
  const spec = host.spec();
  const creating = host.driver.create(spec, {
    onPhase: (phase) => {
      if (phase === 'initializing') void host.driver.stop(spec.sandboxId);
    },
  });
  await expect(creating).rejects.toMatchObject({ code: 'aborted' });
  expect(await readState(spec)).toBe('exited');
});

test('an unknown image and a failed start have different errors', async () => {
  const spec = host.spec({ image: `localhost:1/none@sha256:${'0'.repeat(64)}` });
  await expect(host.driver.create(spec)).rejects.toMatchObject({ code: 'image_pull_failed' });
});

test('a name that is a path is refused', async () => {
  await expect(async () => host.driver.remove('../..' as SandboxId)).rejects.toThrow(TypeError);
  expect(existsSync(path.join(host.dataDir, 'oci'))).toBe(true);
});

test('ten are created at once', async () => {
  const specs = Array.from({ length: 10 }, () => host.spec());
  const places = await Promise.all(specs.map((spec) => host.driver.create(spec)));
  expect(new Set(places.map((place) => place.address)).size).toBe(10);
  const names = await Promise.all(places.map((place, at) => shell(place, specs[at]!, 'hostname')));
  expect(names.map((name) => name.output)).toEqual(specs.map((spec) => spec.sandboxId));
  await Promise.all(specs.map(({ sandboxId }) => host.driver.stop(sandboxId)));
  expect((await host.driver.list()).map((sandbox) => sandbox.state)).toEqual(specs.map(() => 'exited'));
});
