import { cloneInBox, SystemdBox } from '../support/systemd-box.ts';
import { until } from '../support/until.ts';

/** The platform as a service of systemd, from its installation to its removal. Each test goes on from the one before. */
let box: SystemdBox;

const dataEnv = '/var/lib/sandbox-platform/platform.env';
const program = (folder: string) => `${folder}/node_modules/node/bin/node ${folder}/ops/service/main.ts`;
const current = '/opt/sandbox-platform/current';

beforeAll(async () => {
  box = await SystemdBox.make();
  await box.boot();
}, 600_000);

afterAll(() => box?.remove());

/** Runs a command in the box. @throws {Error} with its output if it fails */
async function run(command: string): Promise<string> {
  const { failed, output } = await box.run(command);
  if (failed) throw new Error(`${command} failed:\n${output}`);
  return output.trim();
}

// biome-ignore lint/suspicious/noExplicitAny: any reply of the API
async function ask(method: string, route: string, body?: object, url = '$PLATFORM_URL'): Promise<any> {
  const data = body ? `--data '${JSON.stringify(body)}' --header 'Content-Type: application/json'` : '';
  const command = `. ${dataEnv}; curl -sS -X ${method} -H "X-API-Key: $PLATFORM_API_KEY" ${data} ${url}${route}`;
  return JSON.parse(await run(command));
}

async function create(): Promise<string> {
  const { data } = await ask('POST', '/v1/sandboxes', { template: 'base', timeout: 3600 });
  expect(data.status).toBe('running');
  return data.sandbox_id;
}

const statusOf = async (sandbox: string) => {
  const { data } = await ask('GET', `/v1/sandboxes/${sandbox}`);
  return [data.status, data.reason];
};

const exec = async (sandbox: string, command: string, url?: string): Promise<string> =>
  (await ask('POST', `/v1/sandboxes/${sandbox}/exec`, { command, wait: true }, url)).stdout;

const sleeping = (sandbox: string) => exec(sandbox, 'pgrep -x sleep');

let running: string;
let paused: string;
/** The number of a process in the running sandbox. */
let sleeper: string;

test('one command installs the platform and starts it; its log is in the journal, without its API key', async () => {
  await run(`cd ${cloneInBox} && ${program('.')} install`);
  expect(await run('systemctl is-active sandbox-platform')).toBe('active');
  [running, paused] = [await create(), await create()];
  expect(await exec(running, 'nohup sleep 100000 >/dev/null 2>&1 & echo kept > /root/note')).toBe('');
  sleeper = await sleeping(running);
  expect(sleeper).toMatch(/^\d+\n$/);
  await ask('POST', `/v1/sandboxes/${paused}/pause`);

  const log = await run('journalctl --unit sandbox-platform --output cat');
  for (const part of ['api', 'gateway', 'worker', 'host']) expect(log).toMatch(new RegExp(`^${part}: ready`, 'm'));
  expect(log).toMatch(/^api: request \{"client_request_id".*"path":"\/v1\/sandboxes"/m);
  const apiKey = await run(`. ${dataEnv}; echo $PLATFORM_API_KEY`);
  expect(apiKey.length).toBeGreaterThan(20);
  expect(log).not.toContain(apiKey);
  const priorities = await run(
    'journalctl --unit sandbox-platform --output json --lines 400 | grep -o \'"PRIORITY":"."\' | sort -u',
  );
  expect(priorities).toContain('"PRIORITY":"6"');
}, 600_000);

test('sandboxes go on during a restart of the service, and after a kill of it', async () => {
  await run('systemctl restart sandbox-platform');
  expect(await sleeping(running)).toBe(sleeper);
  expect(await statusOf(paused)).toEqual(['paused', 'user_requested']);

  await run('kill -9 $(systemctl show --property MainPID --value sandbox-platform)');
  await until(async () => (await box.run('systemctl is-active sandbox-platform')).output.trim() === 'active', 300_000);
  expect(await sleeping(running)).toBe(sleeper);
  expect(await run('systemctl show --property NRestarts --value sandbox-platform')).toBe('1');
}, 600_000);

test('after a reboot the service is there, and sandboxes are paused with their disks', async () => {
  await box.reboot();
  await until(async () => (await box.run('systemctl is-active sandbox-platform')).output.trim() === 'active', 300_000);
  await until(async () => (await statusOf(running))[0] === 'paused');
  expect(await statusOf(running)).toEqual(['paused', 'host_restarted']);
  expect(await statusOf(paused)).toEqual(['paused', 'user_requested']);
  for (const sandbox of [running, paused]) {
    expect((await ask('POST', `/v1/sandboxes/${sandbox}/resume`)).data.status).toBe('running');
  }
  expect(await exec(running, 'cat /root/note')).toBe('kept\n');
}, 600_000);

test('an upgrade and the way back keep sandboxes and settings', async () => {
  await exec(running, 'nohup sleep 100000 >/dev/null 2>&1 &');
  sleeper = await sleeping(running);
  const before = await run(`readlink ${current}`);
  await run(`cd ${cloneInBox} && ${program('.')} upgrade`);
  expect(await run(`readlink ${current}`)).toBe(`${before}-2`);
  expect(await sleeping(running)).toBe(sleeper);

  await run(program(`/opt/sandbox-platform/${before}`).concat(' upgrade'));
  expect(await run(`readlink ${current}`)).toBe(before);
  expect(await sleeping(running)).toBe(sleeper);
}, 900_000);

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
    await until(async () => (await box.run(`systemctl is-active ${part}`)).output.trim() === 'active', 300_000);
    expect(await run(`ps -o user:20= -p $(systemctl show --property MainPID --value ${part})`)).toBe(
      'sandbox-platform',
    );
  }
  expect(await exec(running, 'echo reached', 'http://127.0.0.1:17080')).toBe('reached\n');
  const agent = `49983-${running}.sandbox.localhost`;
  const reach = `curl -sSk -o /dev/null -w '%{http_code}' --resolve ${agent}:443:127.0.0.1 https://${agent}/health`;
  expect(await run(reach)).toBe('200');
  await run('systemctl stop sandbox-platform.target');
}, 600_000);

test('uninstall --purge leaves nothing of the platform and its sandboxes', async () => {
  await run(`cd / && ${program(current)} uninstall --purge`);
  const places = '/opt/sandbox-platform /var/lib/sandbox-platform /var/cache/sandbox-platform /etc/sandbox-platform';
  expect((await box.run(`ls -d ${places} /etc/systemd/system/*sandbox* 2>/dev/null`)).output).toBe('');
  expect((await box.run('getent passwd sandbox-platform')).output).toBe('');
  expect((await box.run('ps -eo args | grep "[s]him.pl\\|[l]ease-guard\\|/opt/sandbox-[p]latform"')).output).toBe('');
  expect(
    (await box.run('find /sys/fs/cgroup -name "sandboxes-*"; nft list tables; grep sandbox /proc/mounts')).output,
  ).toBe(await run(`grep ${cloneInBox} /proc/mounts`).then((line) => `${line}\n`));
  expect((await run('ls /sys/class/net')).split('\n')).toEqual(['lo']);
  expect((await box.run('systemctl list-units --all --plain --no-legend "sandbox*"')).output).toBe('');
}, 600_000);
