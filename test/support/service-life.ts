import { expect, test } from '@jest/globals';
import { until } from './until.ts';

/** A machine that systemd has booted. */
interface SystemdMachine {
  /** Runs a shell script as root. @throws {Error} with its output if it fails */
  run(script: string): Promise<string>;
  /** Runs a shell script as root, which may fail. */
  try(script: string): Promise<{ status: number | null; output: string }>;
  reboot(): Promise<void>;
  close(): unknown;
}

const dataEnv = '/var/lib/sandbox-platform/platform.env';
const program = (folder: string) => `${folder}/node_modules/node/bin/node ${folder}/ops/service/main.ts`;
const current = '/opt/sandbox-platform/current';
const activeTimeoutMs = 1_800_000;

/** Prints the reply to a request: method, URL, key, body, name of the host for TLS. */
const request = `
  const { request } = await import(process.argv[2].startsWith("https") ? "node:https" : "node:http");
  const [, method, url, key, body, name] = process.argv;
  const headers = { "x-api-key": key, ...(body && { "content-type": "application/json" }), ...(name && { host: name }) };
  const options = { method, headers, ...(name && { servername: name, rejectUnauthorized: false }) };
  const reply = await new Promise((done, failed) => request(url, options, done).on("error", failed).end(body || undefined));
  console.log(name ? reply.statusCode : (await reply.toArray()).join(""));`;

/**
 * The platform as a service of systemd, from its installation to its removal. Each test goes on from the one before.
 * @param open boots a machine that has this project, its packages and the caches of set-up
 */
export function testService(open: () => Promise<{ machine: SystemdMachine; project: string }>): void {
  let machine: SystemdMachine;
  let project: string;

  beforeAll(async () => {
    ({ machine, project } = await open());
  }, 3_600_000);

  afterAll(() => machine?.close());

  const run = async (script: string) => (await machine.run(script)).trim();
  const outputOf = async (script: string) => (await machine.try(script)).output;

  const send = (method: string, url: string, { body = '', name = '' } = {}) => {
    const words = [method, url, '$PLATFORM_API_KEY', body.replaceAll('"', '\\"'), name].map((word) => `"${word}"`);
    return run(
      `. ${dataEnv}; ${project}/node_modules/node/bin/node --input-type=module --eval '${request}' ${words.join(' ')}`,
    );
  };
  // biome-ignore lint/suspicious/noExplicitAny: any reply of the API
  const ask = async (method: string, route: string, body?: object, url = '$PLATFORM_URL'): Promise<any> =>
    JSON.parse(await send(method, `${url}${route}`, body && { body: JSON.stringify(body) }));

  const create = async (): Promise<string> => {
    const { data } = await ask('POST', '/v1/sandboxes', { template: 'base', timeout: 86_400 });
    await until(async () => (await statusOf(data.sandbox_id))[0] === 'running', activeTimeoutMs, 500);
    return data.sandbox_id;
  };

  const statusOf = async (sandbox: string) => {
    const { data } = await ask('GET', `/v1/sandboxes/${sandbox}`);
    return [data.status, data.reason];
  };

  const exec = async (sandbox: string, command: string, url?: string): Promise<string> =>
    (await ask('POST', `/v1/sandboxes/${sandbox}/exec`, { command, wait: true }, url)).stdout;

  const sleeping = (sandbox: string) => exec(sandbox, 'pgrep -x sleep');

  const untilActive = (unit: string) =>
    until(async () => (await outputOf(`systemctl is-active ${unit}`)).trim() === 'active', activeTimeoutMs, 500);

  let running: string;
  let paused: string;
  /** The number of a process in the running sandbox. */
  let sleeper: string;

  test('one command installs the platform and starts it; its log is in the journal, without its API key', async () => {
    await run(`cd ${project} && ${program('.')} install`);
    expect(await run('systemctl is-active sandbox-platform')).toBe('active');
    [running, paused] = [await create(), await create()];
    expect(await exec(running, 'nohup sleep 100000 >/dev/null 2>&1 & echo kept > /root/note')).toBe('');
    sleeper = await sleeping(running);
    expect(sleeper).toMatch(/^\d+\n$/);
    await ask('POST', `/v1/sandboxes/${paused}/pause`);

    const log = await run('journalctl --unit sandbox-platform --output cat');
    for (const part of ['api', 'gateway', 'worker', 'host']) expect(log).toMatch(new RegExp(`^${part}: ready`, 'm'));
    expect(log).toMatch(/^api: request \{"request_id".*"path":"\/v1\/sandboxes"/m);
    const apiKey = await run(`. ${dataEnv}; echo $PLATFORM_API_KEY`);
    expect(apiKey.length).toBeGreaterThan(20);
    expect(log).not.toContain(apiKey);
    const priorities = await run(
      'journalctl --unit sandbox-platform --output json --lines 400 | grep -o \'"PRIORITY":"."\' | sort -u',
    );
    expect(priorities).toContain('"PRIORITY":"6"');
  }, 3_600_000);

  test('sandboxes go on during a restart of the service, and after a kill of it', async () => {
    await run('systemctl restart sandbox-platform');
    expect(await sleeping(running)).toBe(sleeper);
    expect(await statusOf(paused)).toEqual(['paused', 'user_requested']);

    await run('kill -9 $(systemctl show --property MainPID --value sandbox-platform)');
    // For a moment it still counts as active.
    const restarts = () => run('systemctl show --property NRestarts --value sandbox-platform');
    await until(async () => (await restarts()) === '1', activeTimeoutMs, 500);
    await untilActive('sandbox-platform');
    expect(await sleeping(running)).toBe(sleeper);
    expect(await restarts()).toBe('1');
  }, 3_600_000);

  test('after a reboot the service is there, and sandboxes are paused with their disks', async () => {
    await machine.reboot();
    await untilActive('sandbox-platform');
    await until(async () => (await statusOf(running))[0] === 'paused', activeTimeoutMs, 500);
    expect(await statusOf(running)).toEqual(['paused', 'host_restarted']);
    expect(await statusOf(paused)).toEqual(['paused', 'user_requested']);
    for (const sandbox of [running, paused]) {
      expect((await ask('POST', `/v1/sandboxes/${sandbox}/resume`)).data.status).toBe('running');
    }
    expect(await exec(running, 'cat /root/note')).toBe('kept\n');
  }, 3_600_000);

  test('an upgrade and the way back keep sandboxes and settings', async () => {
    await exec(running, 'nohup sleep 100000 >/dev/null 2>&1 &');
    sleeper = await sleeping(running);
    const before = await run(`readlink ${current}`);
    await run(`cd ${project} && ${program('.')} upgrade`);
    expect(await run(`readlink ${current}`)).toBe(`${before}-2`);
    expect(await sleeping(running)).toBe(sleeper);

    await run(program(`/opt/sandbox-platform/${before}`).concat(' upgrade'));
    expect(await run(`readlink ${current}`)).toBe(before);
    expect(await sleeping(running)).toBe(sleeper);
  }, 3_600_000);

  test('the processes without rights serve beside it as units of their own, at a port below 1024', async () => {
    // The database, Temporal and the registry are those of the service.
    const mine = '"DATA_DIR|CACHE_DIR|API_PORT|GATEWAY_PORT|SWEEP"';
    const list = `const all = JSON.parse(require("node:fs").readFileSync("/var/lib/sandbox-platform/settings.json"));
    for (const [name, value] of Object.entries(all)) if (!new RegExp(${mine}).test(name)) console.log(name + "=" + value.replace(/[?]host=.*/, ""));
    console.log("PLATFORM_API_PORT=17080\\nPLATFORM_GATEWAY_PORT=443");`;
    await run(`umask 077; ${current}/node_modules/node/bin/node --eval '${list}' > /etc/sandbox-platform/units.env`);
    const parts = ['migrate', 'api', 'gateway', 'worker'].map((name) => `sandbox-platform-${name}`);
    for (const part of parts) {
      const folder = `/etc/systemd/system/${part}.service.d`;
      await run(
        `mkdir ${folder}; printf '[Service]\\nEnvironmentFile=/etc/sandbox-platform/units.env\\n' > ${folder}/test.conf`,
      );
    }
    await run(`systemctl daemon-reload; systemctl enable sandbox-platform.target ${parts.join(' ')}`);
    await run('systemctl start sandbox-platform.target');
    for (const part of parts.slice(1)) {
      await untilActive(part);
      expect(await run(`ps -o user:20= -p $(systemctl show --property MainPID --value ${part})`)).toBe(
        'sandbox-platform',
      );
    }
    expect(await exec(running, 'echo reached', 'http://127.0.0.1:17080')).toBe('reached\n');
    const agent = `49983-${running}.sandbox.localhost`;
    expect(await send('GET', 'https://127.0.0.1:443/health', { name: agent })).toBe('200');
    await run('systemctl stop sandbox-platform.target');
  }, 3_600_000);

  test('uninstall --purge leaves nothing of the platform and its sandboxes', async () => {
    await run(`cd / && ${program(current)} uninstall --purge`);
    const places = '/opt/sandbox-platform /var/lib/sandbox-platform /var/cache/sandbox-platform /etc/sandbox-platform';
    expect(await outputOf(`ls -d ${places} /etc/systemd/system/*sandbox* 2>/dev/null`)).toBe('');
    expect(await outputOf('getent passwd sandbox-platform')).toBe('');
    expect(await outputOf('ps -eo args | grep "[s]him.pl\\|[l]ease-guard\\|/opt/sandbox-[p]latform"')).toBe('');
    expect(await outputOf('find /sys/fs/cgroup -name "sandboxes-*"; nft list tables')).toBe('');
    expect(await outputOf('ls /sys/class/net | grep sb; grep /var/lib/sandbox-platform /proc/mounts')).toBe('');
    expect(await outputOf('systemctl list-units --all --plain --no-legend "sandbox*"')).toBe('');
  }, 3_600_000);
}
