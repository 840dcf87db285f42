import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseEnv } from 'node:util';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { choosePorts } from '../../ops/local-stack/embedded/ports.ts';
import { startPostgres } from '../../ops/local-stack/embedded/postgres.ts';
import { startRegistry } from '../../ops/local-stack/embedded/registry.ts';
import { startTemporalOnPostgres, temporalInnerPorts } from '../../ops/local-stack/embedded/temporal.ts';
import { temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { isFenced } from '../faults/far-host.ts';
import type { TcpRelay } from '../support/tcp-relay.ts';
import { until } from '../support/until.ts';
import { type CodeBlock, expectOutput, readCodeBlocks } from './code-blocks.ts';
import { PrivateMachines } from './private-machines.ts';

/**
 * The blocks of a guide, on three machines that have only the guide's private network. Postgres, Temporal and the
 * registry are the programs of `npm start`, at the addresses at which the guide publishes them.
 */
const page = 'docs/guides/three-machines.md';
const blocks = readCodeBlocks(page).filter(({ language }) => language === 'sh');
const addresses = { one: '10.77.0.11', two: '10.77.0.12', three: '10.77.0.13' };
/** The hosts' pools and images would take the time of other tests. */
const quick = { PLATFORM_WARM_POOL_SIZE: '0', PLATFORM_IMAGES_AHEAD: 'none' };
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, timeout: 3600 };

/** Disposed in reverse order, even if a part of it fails. */
const cleanUp = new AsyncDisposableStack();
let machines: PrivateMachines;
/** The ports of the servers at the address of `one`. */
let published: TcpRelay[];
let publish: () => Promise<TcpRelay[]>;

beforeAll(async () => {
  machines = await PrivateMachines.make(addresses, { ...process.env, NODE_OPTIONS: '', ...quick });
  cleanUp.defer(async () => expect(await machines.close()).toEqual([]));
  for (const block of blocks) {
    if (block.notRun === null) await runBlock(block);
    else await startServers();
  }
}, 300_000);

afterAll(() => cleanUp.disposeAsync(), 120_000);

async function runBlock(block: CodeBlock): Promise<void> {
  expect(block.about).not.toEqual([]);
  const printed = await Promise.all(block.about.map((name) => machines.get(name).run(block.source)));
  for (const each of printed) expectOutput(block, each);
}

/** What `docker compose up` of the guide starts. */
async function startServers(): Promise<void> {
  const one = machines.get('one');
  const passwords = parseEnv(await one.run('cat /etc/sandbox-platform/servers.env'));
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'servers-of-three-'));
  cleanUp.defer(() => fs.rmSync(dir, { recursive: true, force: true }));
  // Postgres does not run as root and needs access to its folder.
  fs.chmodSync(dir, 0o711);
  const home = { logDir: path.join(dir, 'logs') };
  const names = ['postgres', 'registry', 'frontend', ...temporalInnerPorts] as const;
  const first = 24_000 + (process.pid % 100) * 40;
  const ports = await choosePorts(
    dir,
    names.map((name, index) => ({ name, preferred: first + index })),
  );
  const postgres = await startPostgres({
    dir: path.join(dir, 'postgres'),
    home,
    port: ports.postgres,
    password: passwords.POSTGRES_PASSWORD!,
    forgetful: true,
  });
  cleanUp.defer(() => postgres.stop());
  await postgres.ensureOwnedDatabase('platform', passwords.POSTGRES_PASSWORD!);
  await postgres.ensureRole('platform_runtime', passwords.POSTGRES_RUNTIME_PASSWORD!);
  const registry = await startRegistry({ dir: path.join(dir, 'registry'), home, port: ports.registry });
  cleanUp.defer(() => registry.stop());
  const temporal = await startTemporalOnPostgres({
    postgres,
    password: passwords.POSTGRES_TEMPORAL_PASSWORD!,
    programs: temporalPrograms(),
    dataDir: dir,
    home,
    ports,
    namespace: 'default',
  });
  cleanUp.defer(() => temporal.stop());
  publish = () =>
    Promise.all([
      one.relay(7432, `127.0.0.1:${ports.postgres}`),
      one.relay(7233, temporal.address),
      one.relay(7500, registry.address),
    ]);
  published = await publish();
}

/** A request of the machine `one` to the API. */
async function request<Data>(method: string, route: string, body: object = {}): Promise<Data> {
  const words = `-sS -X ${method} -H "X-API-Key: $PLATFORM_API_KEY" -H 'Content-Type: application/json'`;
  const sent = method === 'GET' ? '' : `-d @- <<'END'\n${JSON.stringify(body)}\nEND`;
  return JSON.parse(await machines.get('one').run(`curl ${words} "$PLATFORM_URL${route}" ${sent}`));
}

const read = async (id: string) => (await request<{ data: SandboxView }>('GET', `/v1/sandboxes/${id}`)).data;
const run = (id: string, command: string) =>
  request<{ stdout: string; exit_code: number }>('POST', `/v1/sandboxes/${id}/exec`, { command, wait: true });

async function remove(id: string): Promise<void> {
  await request('DELETE', `/v1/sandboxes/${id}`);
  await until(async () => (await read(id)) === undefined, 60_000, 200);
}

/** A running sandbox on a host. */
async function createOn(host: 'two' | 'three'): Promise<SandboxView> {
  const other = host === 'two' ? 'three' : 'two';
  const drain = (command: string) => machines.get('one').run(`npm run --silent admin -- ${command} --host ${other}`);
  await drain('drain-host');
  let made: SandboxView | undefined;
  // A host worker that has just started offers its machine a moment later.
  await until(async () => {
    made = (await request<{ data?: SandboxView }>('POST', '/v1/sandboxes', small)).data;
    return made !== undefined;
  });
  await drain('undrain-host');
  expect(made).toMatchObject({ status: 'running' });
  return made!;
}

test('the API, the gateway of `one` and those of the other machines reach the sandboxes of both hosts', async () => {
  for (const host of ['two', 'three'] as const) {
    const { sandbox_id, sandbox_domain } = await createOn(host);
    expect(await run(sandbox_id, 'hostname')).toMatchObject({ exit_code: 0, stdout: `${sandbox_id}\n` });
    for (const [from, gateway] of [
      ['two', 'http://one:7081'],
      ['two', 'http://127.0.0.1:7081'],
      ['three', 'http://127.0.0.1:7081'],
    ] as const) {
      const asked = `curl -s -o /dev/null -w '%{http_code}' -H 'Host: ${sandbox_domain}' ${gateway}/health`;
      // A gateway that has just started may still wait for its certificate.
      await until(async () => /^2/.test(await machines.get(from).run(asked)), 30_000, 200);
    }
    await remove(sandbox_id);
  }
}, 120_000);

test('a sandbox reaches no server of the private network', async () => {
  const { sandbox_id } = await createOn('two');
  const targets = ['10.77.0.11 7432', '10.77.0.11 7233', '10.77.0.11 7500', '10.77.0.12 7084', '10.77.0.13 7084'];
  for (const target of targets) {
    const dial = `timeout 3 bash -c 'exec 3<>/dev/tcp/${target.replace(' ', '/')}' && echo connected || echo refused`;
    // The machine itself reaches it, so there is something to be refused.
    expect([target, await machines.get('two').run(dial)]).toEqual([target, 'connected\n']);
    expect([target, (await run(sandbox_id, dial)).stdout]).toEqual([target, 'refused\n']);
  }
  await remove(sandbox_id);
}, 120_000);

test('sandboxes freeze while `one` is away, and go on when its processes start again', async () => {
  const { sandbox_id } = await createOn('two');
  const pid = (await run(sandbox_id, 'sleep 3600 > /dev/null & echo $!')).stdout.trim();
  const { dataDir } = machines.get('two');
  // `one` crashes: connections to it stay open without an answer, and no control worker declares hosts lost.
  await machines.get('one').run('kill -9 $(jobs -p); wait || true');
  for (const port of published) port.hang();
  await until(() => isFenced(dataDir), 60_000, 200);
  // After its start, it refuses packets of earlier connections.
  for (const port of published) port.close();
  await publish();
  await startProcesses('one');
  await until(() => !isFenced(dataDir), 60_000, 200);
  expect(await read(sandbox_id)).toMatchObject({ status: 'running' });
  // The new processes of `one` may still wait for their certificates.
  await until(async () => (await run(sandbox_id, `kill -0 ${pid} && echo lives`)).stdout === 'lives\n', 30_000, 500);
  await remove(sandbox_id);
}, 180_000);

test('a machine whose link is cut is lost, the other one goes on, and new sandboxes start there', async () => {
  const [lost, kept] = [await createOn('two'), await createOn('three')];
  machines.get('two').cut();
  await until(async () => (await read(lost.sandbox_id)).status === 'failed', 90_000, 500);
  expect(await read(lost.sandbox_id)).toMatchObject({ reason: expect.stringContaining('host_lost') });
  expect(await run(kept.sandbox_id, 'echo on')).toMatchObject({ stdout: 'on\n' });
  const made = await request<{ data: SandboxView }>('POST', '/v1/sandboxes', small);
  expect(made).toMatchObject({ data: { status: 'running' } });
  machines.get('two').restore();
  // Its host worker ends when it hears that it was given up. The block of the guide does what a service manager does.
  await machines.get('two').run('wait -n %1 || true');
  await startProcesses('two');
  const back = await createOn('two');
  for (const { sandbox_id } of [lost, kept, made.data, back]) await remove(sandbox_id);
}, 240_000);

/** Starts the processes of a machine again, with the block of the guide. */
async function startProcesses(name: string): Promise<void> {
  const block = blocks.find(({ about, source }) => about.includes(name) && source.includes('run worker/'))!;
  await machines.get(name).run(block.source);
}
