import fs from 'node:fs';
import path from 'node:path';
import { processStartedAt } from '../../ops/local-stack/embedded/process-record.ts';
import { temporalAddress, testDatabase } from '../support/stack.ts';
import { eventually, newDataDir, RunningPlatform } from './running-platform.ts';

let env: NodeJS.ProcessEnv;
let dataDir: string;
let running: RunningPlatform[];

beforeAll(async () => {
  const [database, temporal] = await Promise.all([testDatabase(), temporalAddress()]);
  // The run's own parts in place of embedded ones, because these tests are about the platform's processes.
  env = { DATABASE_URL: database.url, TEMPORAL_ADDRESS: temporal, PLATFORM_REGISTRY: '127.0.0.1:1' };
});

beforeEach(() => {
  dataDir = newDataDir();
  running = [];
});

afterEach(async () => {
  await Promise.all(running.map((platform) => platform.end('SIGTERM')));
  fs.rmSync(dataDir, { recursive: true, force: true });
});

function start(more: NodeJS.ProcessEnv = {}): RunningPlatform {
  const platform = new RunningPlatform(dataDir, { ...env, ...more });
  running.push(platform);
  return platform;
}

const isRunning = (pid: number) => processStartedAt(pid) !== undefined;

test('platform.env is private and contains the addresses, and from the first start the API key', async () => {
  const first = start();
  const { env: announced, newApiKey } = await first.ready();
  expect(newApiKey).toBe('sbp_first');
  const file = path.join(dataDir, 'platform.env');
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  const text = fs.readFileSync(file, 'utf8');
  expect(text).toContain(`PLATFORM_API_KEY='sbp_first'\n`);
  expect(text).toContain(`PLATFORM_URL='${announced.PLATFORM_URL}'\n`);
  expect(text).toContain(`PLATFORM_GATEWAY='${announced.PLATFORM_GATEWAY}'\n`);
  expect(text).toContain(`PLATFORM_CA='${dataDir}/ca/ca.pem'\n`);
  expect(text).toContain(`TEMPORAL_ADDRESS='${env.TEMPORAL_ADDRESS}'\n`);
  await first.end('SIGTERM');

  const { env: announcedAgain, newApiKey: newAgain } = await start().ready();
  expect(newAgain).toBeUndefined();
  expect(announcedAgain).toEqual(announced);
  expect(fs.readFileSync(file, 'utf8')).toBe(text);
});

test('the API key is shown by the first start that succeeds, also when an earlier one made it', async () => {
  const failing = start({ TEMPORAL_ADDRESS: '127.0.0.1:1' });
  await expect(failing.ready()).rejects.toThrow(/connect/i);
  expect(fs.existsSync(path.join(dataDir, 'migrated'))).toBe(true);
  const succeeding = start();
  expect((await succeeding.ready()).newApiKey).toBe('sbp_first');
  await succeeding.end('SIGTERM');
  const { env: announced, newApiKey } = await start().ready();
  expect(newApiKey).toBeUndefined();
  expect(announced.PLATFORM_API_KEY).toBe('sbp_first');
});

test('the secret key is made once, private, and passed to each process', async () => {
  const first = start();
  await first.ready();
  const file = path.join(dataDir, 'secret-key');
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  const key = fs.readFileSync(file, 'utf8');
  expect(Buffer.from(key, 'base64')).toHaveLength(32);
  await first.end('SIGTERM');
  await start().ready();
  expect(fs.readFileSync(file, 'utf8')).toBe(key);
});

test('a killed process is restarted, and warnings of processes reach the terminal', async () => {
  const platform = start();
  await platform.ready();
  const { pid } = platform.process('api');
  process.kill(pid, 'SIGKILL');
  const next = await eventually(() => {
    const now = platform.process('api').pid;
    return now === pid ? undefined : now;
  });
  expect(isRunning(next)).toBe(true);
  await eventually(() => platform.errors.includes('api is ready again') || undefined);
  expect(platform.errors).toContain('api ended (SIGKILL), starting it again in 0.5 s');
  expect(platform.errors).toContain('api: something odd: a cause');
});

test('SIGTERM stops the servers before the workers, and leaves nothing running', async () => {
  const platform = start();
  await platform.ready();
  const pids = ['api', 'gateway', 'worker', 'host'].map((name) => platform.process(name).pid);
  await platform.end('SIGTERM');
  expect(platform.child.exitCode).toBe(0);
  expect(pids.filter(isRunning)).toEqual([]);
  const stopped = fs.readFileSync(path.join(dataDir, 'stopped'), 'utf8').trim().split('\n');
  expect(stopped.slice(0, 2).sort()).toEqual(['api', 'gateway']);
  expect(stopped.slice(2).sort()).toEqual(['host', 'worker']);
});

test('a worker that ends while the servers stop is not started again', async () => {
  const mayStop = path.join(dataDir, 'may-stop');
  const platform = start({ STOP_WHEN: mayStop });
  await platform.ready();
  platform.child.kill('SIGTERM');
  await eventually(() => fs.readFileSync(path.join(dataDir, 'platform.pid'), 'utf8').includes('stopping') || undefined);
  process.kill(platform.process('worker').pid, 'SIGKILL');
  await eventually(() => platform.errors.includes('worker ended (SIGKILL)') || undefined);
  fs.writeFileSync(mayStop, '');
  expect(await eventually(() => platform.child.exitCode ?? undefined)).toBe(0);
  expect(platform.errors).not.toMatch(/again/);
});

test('a second supervisor on the same data folder is refused with the pid of the first', async () => {
  const first = start();
  await first.ready();
  const second = start();
  await expect(second.ready()).rejects.toThrow(`A platform already runs on ${dataDir} (pid ${first.child.pid})`);
  expect(isRunning(first.process('api').pid)).toBe(true);
});

test('a start waits while the former supervisor stops', async () => {
  const mayStop = path.join(dataDir, 'may-stop');
  const first = start({ STOP_WHEN: mayStop });
  await first.ready();
  first.child.kill('SIGTERM');
  await eventually(() =>
    fs.readFileSync(path.join(dataDir, 'platform.pid'), 'utf8').includes('stopping') ? true : undefined,
  );
  const next = start().ready();
  fs.writeFileSync(mayStop, '');
  await next;
  expect(await eventually(() => first.child.exitCode ?? undefined)).toBe(0);
});

test('two copies with two data folders run in parallel with their own ports, and keep them', async () => {
  const first = await start().ready();
  const otherDir = newDataDir();
  const other = new RunningPlatform(otherDir, env);
  running.push(other);
  const second = await other.ready();
  const addresses = [first, second].flatMap(({ env: announced }) => [
    announced.PLATFORM_URL,
    announced.PLATFORM_GATEWAY,
  ]);
  expect(new Set(addresses).size).toBe(4);
  await running[0]!.end('SIGTERM');
  await other.end('SIGTERM');
  // The other copy's ports are free now, but its clients know its own.
  const again = new RunningPlatform(otherDir, env);
  running.push(again);
  expect((await again.ready()).env).toEqual(second.env);
  await again.end('SIGTERM');
  fs.rmSync(otherDir, { recursive: true, force: true });
});

test('a named port that is used is refused with the name of its setting', async () => {
  const { env: announced } = await start().ready();
  const port = new URL(announced.PLATFORM_URL).port;
  const otherDir = newDataDir();
  const other = new RunningPlatform(otherDir, { ...env, PLATFORM_API_PORT: port });
  await expect(other.ready()).rejects.toThrow(`PLATFORM_API_PORT: port ${port} is taken on 127.0.0.1`);
  fs.rmSync(otherDir, { recursive: true, force: true });
});

test('after a SIGKILL of the supervisor its processes end, and the next start works', async () => {
  const first = start();
  await first.ready();
  const pids = ['api', 'gateway', 'worker', 'host'].map((name) => first.process(name).pid);
  await first.end('SIGKILL');
  const second = start();
  await second.ready();
  expect(pids.filter(isRunning)).toEqual([]);
  expect(isRunning(second.process('host').pid)).toBe(true);
});

test('a failed start gives the reason, ends its processes, and releases the folder', async () => {
  const failing = start({ FAIL_AT_START: 'worker' });
  await expect(failing.ready()).rejects.toThrow(/worker ended while starting \(code 3\):[\s\S]*no such luck/);
  expect(failing.child.exitCode).toBe(1);
  expect(JSON.parse(fs.readFileSync(path.join(dataDir, 'processes.json'), 'utf8'))).toEqual([]);
  await start().ready();
});
