import { spawnSync } from 'node:child_process';
import { readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxExit, SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { isFirstOfNamespace } from '../../runtime/process/process-identity.ts';
import { TightDisk } from '../faults/tight-disk.ts';
import { LocalHost, shell } from './local-host.ts';

/** An agent whose process has ended is started again, and the rest of its sandbox continues. */
let host: LocalHost;
let exits: SandboxExit[];
let disk: TightDisk | undefined;
afterEach(async () => {
  await host.closeEmpty();
  await disk?.remove();
  disk = undefined;
});

async function open(options = {}): Promise<void> {
  host = await LocalHost.open(options);
  exits = [];
  host.driver.onExit((exit) => exits.push(exit));
}

const isAgent = (pid: number) =>
  readIfThere(`/proc/${pid}/cmdline`).startsWith('/.platform/bin/node\0/.platform/agent/');

/**
 * Pids on the host of the first process and the agent of the only sandbox. The agent is undefined when it has ended.
 */
async function pids(): Promise<{ init: number; agent: number | undefined }> {
  const { processes } = await host.inventory();
  return { init: processes.find(isFirstOfNamespace)!, agent: processes.find(isAgent) };
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

async function until(what: string, is: () => boolean | Promise<boolean>, seconds = 45): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await is())) {
    if (performance.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await sleep(20);
  }
}

async function killAgent(): Promise<void> {
  const { agent } = await pids();
  process.kill(agent!, 'SIGKILL');
  await until('the agent has ended', async () => (await pids()).agent !== agent);
}

/** Does what the host worker's reconciliation does every few seconds. */
async function askAgent(spec: SandboxSpec): Promise<void> {
  for (const _ of host.driver.withoutAgent([spec.sandboxId])) await host.driver.restartAgent(spec);
}

async function isHealthy(place: SandboxPlace): Promise<boolean> {
  const reply = await fetch(`http://${place.address}:${place.agentPort}/health`).catch(() => null);
  return reply?.ok ?? false;
}

/** Asks again until the agent answers. */
async function untilHealthy(place: SandboxPlace, spec: SandboxSpec, seconds = 60): Promise<void> {
  const answers = async () => {
    await askAgent(spec);
    return isHealthy(place);
  };
  await until('the agent answers', answers, seconds);
}

const canConnect = (host: string, port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ host, port });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

/** The kernel's restrictions of a process. */
function readStanding(pid: number): Record<string, string> {
  const status = readIfThere(`/proc/${pid}/status`);
  const lines = /^(Uid|Gid|Groups|Cap\w+|NoNewPrivs|Seccomp|Seccomp_filters|Umask|Cpus_allowed|SigIgn|SigBlk):.*$/gm;
  return {
    status: status.match(lines)!.join('\n'),
    limits: readIfThere(`/proc/${pid}/limits`),
    cgroup: readIfThere(`/proc/${pid}/cgroup`),
    environ: readIfThere(`/proc/${pid}/environ`),
    oomScore: readIfThere(`/proc/${pid}/oom_score_adj`),
  };
}

const leftover = `python3 -m http.server 8000 >/dev/null 2>&1 & sleep 3600 >/dev/null 2>&1 &
  while ! wget -q -O /dev/null http://127.0.0.1:8000/ 2>/dev/null && ! python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do sleep 0.05; done`;

describe.each(['crun', 'runc'] as const)('with %s', (runtime) => {
  beforeEach(() => open({ runtime }), 300_000);

  test('a new agent has the same restrictions and tokens; processes, servers and files stay; the command is not run again', async () => {
    const spec = host.spec({
      command: { entrypoint: ['/bin/sh', '-c'], cmd: ['echo ran >>/root/runs; exec sleep 3600'] },
    });
    const place = await host.driver.create(spec);
    expect((await shell(place, spec, leftover)).exitCode).toBe(0);
    await until('the command has run', async () => (await shell(place, spec, 'cat /root/runs')).output === 'ran');
    const before = await pids();
    const walls = readStanding(before.agent!);
    expect(walls.status).toMatch(/^Seccomp:\t2$/m);
    expect(walls.environ).toContain('AGENT_PORT=');
    const processes = (await host.inventory()).processes.filter((pid) => pid !== before.agent);

    await shell(place, spec, 'kill -9 $PPID').catch(() => undefined);
    await until('the agent has ended', async () => (await pids()).agent === undefined);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
    expect(await canConnect(place.address, 8000)).toBe(true);
    await untilHealthy(place, spec);

    const after = await pids();
    expect(after.init).toBe(before.init);
    expect(readStanding(after.agent!)).toEqual(walls);
    expect((await host.inventory()).processes).toEqual(expect.arrayContaining(processes));
    expect(await canConnect(place.address, 8000)).toBe(true);
    expect((await shell(place, spec, 'cat /root/runs; pidof sleep | wc -w; echo $GREETING')).output).toBe(
      'ran\n2\nhello',
    );
    const wrong = await shell(place, { ...spec, platformToken: 'another' }, 'true').catch((error) => error.message);
    expect(wrong).toBe('the probe was answered with 404');
    expect(host.driver.withoutAgent([spec.sandboxId])).toEqual([]);
    expect(host.warnings).toMatchObject([{ sandboxId: spec.sandboxId, count: 1 }]);
    expect(exits).toEqual([]);
  }, 300_000);

  test('an agent that ended while it was frozen is back after the resume, and pause and stop work without it', async () => {
    const spec = host.spec();
    const place = await host.driver.create(spec);
    await shell(place, spec, 'sleep 3600 >/dev/null 2>&1 &');
    await host.driver.pause(spec.sandboxId);
    const { agent, init } = await pids();
    // A killed process that is frozen ends immediately or when it is thawed: this depends on the kernel.
    process.kill(agent!, 'SIGKILL');
    expect((await host.driver.resume(spec)).from).toBe('thaw');
    await untilHealthy(place, spec);
    expect((await shell(place, spec, 'pidof sleep | wc -w')).output).toBe('1');
    expect((await pids()).init).toBe(init);
    await killAgent();
    await host.driver.pause(spec.sandboxId);
    expect(host.driver.withoutAgent([spec.sandboxId])).toEqual([]);
    expect((await host.driver.resume(spec)).from).toBe('thaw');
    expect(await isHealthy(place)).toBe(true);
    await killAgent();
    await host.driver.stop(spec.sandboxId);
    expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', exit: null });
  }, 300_000);
});

describe('on a host', () => {
  test('an agent that is killed repeatedly is restarted each time, after growing waits', async () => {
    await open();
    const spec = host.spec();
    const place = await host.driver.create(spec);
    const began = performance.now();
    for (let round = 0; round < 4; round += 1) {
      await killAgent();
      await untilHealthy(place, spec);
    }
    // 1, 2 and 4 s.
    expect(performance.now() - began).toBeGreaterThan(7000);
    expect(host.warnings).toMatchObject([1, 2, 3, 4].map((count) => ({ count })));
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
  }, 300_000);

  test.each([
    ['', []],
    [', also without the files that its shim wrote', ['agent', 'pids']],
  ])(
    'one that ended while the host worker was away comes back after the take-over%s',
    async (_how, lost) => {
      await open();
      const spec = host.spec();
      const place = await host.driver.create(spec);
      const { init } = await pids();
      await host.driver.close();
      process.kill((await pids()).agent!, 'SIGKILL');
      await until('the agent has ended', async () => (await pids()).agent === undefined);
      for (const name of lost) rmSync(path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, name));
      await host.start();
      expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running' });
      await untilHealthy(place, spec);
      expect((await pids()).init).toBe(init);
    },
    300_000,
  );

  test('a running agent whose file is lost continues, and its file is written again', async () => {
    await open();
    const spec = host.spec();
    await host.driver.create(spec);
    const before = await pids();
    const file = path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'agent');
    const text = readFileSync(file, 'latin1');
    rmSync(file);
    await askAgent(spec);
    await until('the file is back', () => readIfThere(file) === text);
    expect(await pids()).toEqual(before);
    expect(host.driver.withoutAgent([spec.sandboxId])).toEqual([]);
  }, 300_000);

  test("an agent's log that root replaces does not give the next agent access to a file of the host", async () => {
    await open();
    const spec = host.spec();
    const place = await host.driver.create(spec);
    const target = path.join(host.dataDir, 'target');
    writeFileSync(target, 'untouched');
    const log = '/run/platform/agent.log';
    for (const put of [`ln -s ${target} ${log}`, `mkfifo ${log}`, `mkdir ${log}`]) {
      expect((await shell(place, spec, `rm -rf ${log}; ${put}`)).exitCode).toBe(0);
      await killAgent();
      await untilHealthy(place, spec);
      const { agent } = await pids();
      for (const fd of [1, 2]) expect(readlinkSync(`/proc/${agent}/fd/${fd}`)).toMatch(/agent\.log \(deleted\)$/);
    }
    expect(readFileSync(target, 'latin1')).toBe('untouched');
  }, 300_000);

  test('a create that is cancelled at any moment leaves no process', async () => {
    await open();
    for (let delayMs = 0; delayMs <= 100; delayMs += 10) {
      const cancel = new AbortController();
      const spec = host.spec();
      const created = host.driver.create(spec, { signal: cancel.signal }).then(
        () => 'created',
        (error) => error.code,
      );
      await sleep(delayMs);
      cancel.abort();
      expect(['created', 'aborted']).toContain(await created);
      await host.driver.remove(spec.sandboxId);
      expect(await host.inventory()).toMatchObject({
        processes: [],
        shims: [],
        containers: [],
        loopDevices: [],
      });
    }
  }, 300_000);

  test('on a full disk the agent is restarted, too, and the end of the sandbox is recorded', async () => {
    disk = new TightDisk('2G', ['-m', '0']);
    const { folder } = disk;
    await open({ dataDir: folder });
    const spec = host.spec();
    const place = await host.driver.create(spec);
    const { init, agent } = await pids();
    disk.fill(0);
    spawnSync('dd', ['if=/dev/zero', `of=${path.join(folder, 'rest')}`, 'bs=4k']);
    expect(() => writeFileSync(path.join(folder, 'none'), 'x')).toThrow('ENOSPC');
    process.kill(agent!, 'SIGKILL');
    await until('the agent has ended', async () => (await pids()).agent !== agent);
    await untilHealthy(place, spec);
    expect((await pids()).init).toBe(init);
    process.kill(init, 'SIGKILL');
    await until('the end is reported', () => exits.length > 0);
    expect(exits[0]).toMatchObject({ sandboxId: spec.sandboxId, exitCode: 137 });
    expect(await host.inventory()).toMatchObject({
      processes: [],
      shims: [],
      containers: [],
      loopDevices: [],
    });
  }, 300_000);

  test('a member of the warm pool whose agent ended is not claimed', async () => {
    await open({ warmPoolSize: 1 });
    await until('the pool is filled', () => host.driver.poolReady === 1, 60);
    // When it is killed and frozen, it may end only after it is thawed.
    process.kill((await pids()).agent!, 'SIGKILL');
    expect((await host.driver.create(host.spec({ storageGb: 10 }))).from).toBe('cold');
  }, 300_000);
});
