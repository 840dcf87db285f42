import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { jest } from '@jest/globals';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { formatHost, type StartedGateway, startGateway } from '../gateway/started-gateway.ts';
import { LocalHost, nothing, onHost, shell } from '../runtime/local-host.ts';

jest.setTimeout(300_000);

/**
 * Dots and links that could lead out of a sandbox: through its gateway, and through files that its host writes at the
 * start.
 */
const secret = 'a secret of the host';
let host: LocalHost;
let spec: SandboxSpec;
let place: SandboxPlace;
let gateway: StartedGateway;
let agent: AgentClient;
/** Files of the host that no process inside may read, change or extend. */
let folder: string;
let canary: string;

beforeAll(async () => {
  host = await LocalHost.open();
  folder = path.join(host.dataDir, 'of-the-host');
  canary = path.join(folder, 'canary');
  mkdirSync(folder);
  for (const name of ['canary', 'hosts', 'hostname', 'resolv.conf']) writeFileSync(path.join(folder, name), secret);
  spec = host.spec();
  place = await host.driver.create(spec);
  gateway = await startGateway();
  const { sandboxId, accessToken } = spec;
  gateway.routes.set({ sandboxId, address: place.address, agentPort: place.agentPort, secure: true, accessToken });
  agent = new AgentClient(`${formatHost(sandboxId)}:${gateway.port}`, accessToken);
}, 300_000);

afterAll(async () => {
  agent.close();
  await gateway.stop();
}, 300_000);
afterAll(() => host.closeEmpty(), 300_000);

/** The state that a successful attack would have changed. */
function stateOfHost(): object {
  return {
    files: readdirSync(folder).map((name) => [name, readFileSync(path.join(folder, name), 'utf8')]),
    settings: ['core_pattern', 'hostname'].map((name) => readFileSync(`/proc/sys/kernel/${name}`, 'latin1')),
    devices: onHost('stat', '-c', '%n %F %a', '/dev/null', '/dev/zero'),
    added: ['/dev', '/', '/etc', '/run', '/proc/sys/kernel'].map((each) => [
      each,
      readdirSync(each).filter((name) => isOfSandbox(name, each)),
    ]),
  };
}
const isOfSandbox = (name: string, where: string) =>
  name === 'platform' || (where !== '/etc' && /^(hosts|resolv\.conf)$/.test(name));

const up = '/..'.repeat(20);
const escaped = (text: string) => Buffer.from(text).toString('hex').replaceAll(/../g, '%$&');

test.each<[string, () => string]>([
  ['its path', () => canary],
  ['dots', () => `${up}${canary}`],
  ['dots that are escaped', () => `/%2e%2e/%2E%2E/.%2e${up}${canary}`],
  ['slashes that are escaped', () => `/..%2f..%2f..%2f..%2f..${escaped(canary)}`],
  ['dots that are escaped twice', () => `/%252e%252e/%252e%252e%252f${canary}`],
  ['backslashes', () => `/..%5c..%5c..${canary.replaceAll('/', '%5c')}`],
  ['overlong UTF-8', () => `/%c0%ae%c0%ae/%c0%ae%c0%ae${canary}`],
  ['the root of its first process', () => `/proc/1/root${up}${canary}`],
  ['its own root', () => `/proc/self/root/..${canary}`],
  ['where its first process stands', () => `/proc/1/cwd/..%2f..${canary}`],
  ['its open folders', () => `/dev/fd/3/..%2f..${canary}`],
  ['a stray NUL', () => `${canary}%00/etc/hosts`],
])('no download reaches a file of the host by %s', async (_, spelling) => {
  const reply = await agent.request(`/download${spelling()}`);
  expect([400, 404]).toContain(reply.status);
  expect(reply.body.toString()).not.toContain(secret);
});

test.each<[string, () => string]>([
  ['its path', () => canary],
  ['dots', () => `${'../'.repeat(20)}${canary}`],
  ['the root of its first process', () => `/proc/1/root${up}${canary}`],
  ['its own root', () => `/proc/self/root${canary}`],
  ['where its first process stands', () => `/proc/1/cwd${canary}`],
])('an upload by %s lands inside', async (_, spelling) => {
  const before = stateOfHost();
  await shell(place, spec, `rm -f ${canary}`);
  await agent.upload(spelling(), 'of the sandbox');
  expect((await shell(place, spec, `cat ${canary}`)).output).toBe('of the sandbox');
  expect(stateOfHost()).toEqual(before);
});

test('an upload with a NUL in its path, or with dots in the name of its file, goes nowhere else', async () => {
  await expect(agent.upload(`/srv/a\0${canary}`, 'x')).rejects.toThrow(/400 .*NUL/);
  const boundary = 'b';
  const body = `--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n/srv/named\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="../../../../etc/named"\r\n\r\nx\r\n--b--\r\n`;
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
  expect((await agent.request('/upload', { method: 'POST', headers, body })).status).toBe(200);
  expect((await shell(place, spec, 'ls -d /srv/* /etc/named /named 2>/dev/null')).output).toBe('/srv/named');
});

test('links to what is not its own open it neither for reading nor for writing', async () => {
  const before = stateOfHost();
  const links: Record<string, string> = {
    host: `/proc/1/root${canary}`,
    memory: '/proc/kcore',
    setting: '/proc/sys/kernel/core_pattern',
    key: '/proc/sysrq-trigger',
    disk: '/dev/vda',
    loop: '/dev/loop0',
    null: '/dev/null',
    agent: '/.platform/agent/agent.cjs',
    program: '/proc/self/exe',
    loader: '/proc/1/exe',
    new: '/.platform/agent/new',
    limits: '/sys/fs/cgroup/memory/memory.limit_in_bytes',
  };
  const made = Object.entries(links).map(([name, target]) => `ln -s ${target} /srv/links/${name}`);
  await shell(place, spec, `rm -f ${canary}; mkdir -p /srv/links; ${made.join('; ')}`);
  const look = "find /.platform -printf '%p %s %t %c\n'";
  const { output: programs } = await shell(place, spec, look);
  expect(programs).toContain('/.platform/agent/agent.cjs');
  const opened: string[] = [];
  for (const name of Object.keys(links)) {
    const read = await agent.request(`/download/srv/links/${name}`);
    const isReadable = ['setting', 'agent', 'program', 'loader', 'limits'].includes(name);
    if (read.status < 400 && !isReadable) opened.push(`read ${name}`);
    const written = await agent.upload(`/srv/links/${name}`, 'overwritten').then(
      () => true,
      () => false,
    );
    // An upload through a link without a target makes the target, inside the sandbox.
    const isMadeInside = ['host', 'disk', 'loop'].includes(name);
    if (written && !isMadeInside && (await shell(place, spec, `test -L /srv/links/${name}`)).exitCode === 0)
      opened.push(`written ${name}`);
  }
  expect(opened).toEqual([]);
  expect((await shell(place, spec, look)).output).toBe(programs);
  expect(stateOfHost()).toEqual(before);
  await shell(place, spec, `rm -f ${canary} /dev/vda /dev/loop0`);
});

test('a folder that turns into a link and back while uploads go through it leads them nowhere else', async () => {
  const before = stateOfHost();
  const targets = [`/proc/1/root${folder}`, '/.platform/agent', '/proc/sys/kernel', `../../..${folder}`];
  const swaps = targets.map(
    (target) =>
      `mv -T /srv/race/way /srv/race/kept; ln -s ${target} /srv/race/way; rm /srv/race/way; mv -T /srv/race/kept /srv/race/way`,
  );
  await shell(
    place,
    spec,
    `mkdir -p /srv/race/way; (while [ ! -e /srv/race/stop ]; do ${swaps.join('; ')}; done) >/dev/null 2>&1 &`,
  );
  const content = Buffer.alloc(300_000, 'x');
  const names = ['canary', 'agent.cjs', 'core_pattern', 'hostname', 'new'];
  const tries = Array.from({ length: 60 }, (_, index) =>
    agent.upload(`/srv/race/way/${names[index % names.length]}`, content).then(
      () => 'done',
      (error: Error) => /upload: (\d+)/.exec(error.message)?.[1],
    ),
  );
  const outcomes = await Promise.all(tries);
  await shell(place, spec, 'touch /srv/race/stop');
  expect(outcomes).toContain('done');
  expect(outcomes.filter((outcome) => outcome !== 'done' && !/^[45]\d\d$/.test(outcome!))).toEqual([]);
  expect(stateOfHost()).toEqual(before);
  expect((await shell(place, spec, 'find /.platform -newer /srv/race | head')).output).toBe('');
});

/** Folders that root may put on a disk in its own image, where they are not mounts yet. */
function traps(): [string, string][] {
  const link = (at: string, target: string) => `mkdir -p $(dirname ${at}); ln -s ${target} ${at}`;
  const targets = [folder, `/proc/1/root${folder}`, `..${up}${folder}`, '/proc/sys/kernel', '/dev', '/sys'];
  const files = ['hosts', 'hostname', 'resolv.conf'];
  return [
    ...targets.map((target): [string, string] => [`/etc is ${target}`, link('etc', target)]),
    ...targets.map((target): [string, string] => [`/run is ${target}`, link('run', target)]),
    ['files of /etc', files.map((name) => link(`etc/${name}`, path.join(folder, name))).join('; ')],
    ['/proc, /sys and /dev', ['proc', 'sys', 'dev'].map((name) => link(name, folder)).join('; ')],
    ['/.platform', link('.platform', folder)],
    ['/run/platform', link('run/platform', folder)],
  ];
}

test.each(['crun', 'runc'] as const)(
  'folders of a disk that are links lead %s to nothing of the host when it starts on it',
  async (runtime) => {
    await using own = await LocalHost.open({ runtime });
    try {
      const before = stateOfHost();
      const trapped = own.spec();
      await own.driver.create(trapped);
      const disk = path.join(own.dataDir, 'oci/sandboxes', trapped.sandboxId, 'disk.ext4');
      for (const [trap, script] of traps()) {
        await own.driver.stop(trapped.sandboxId);
        const set = `mount -o loop ${disk} /mnt; cd /mnt/upper; rm -rf etc run proc sys dev .platform; ${script}; cd /; umount /mnt`;
        onHost('unshare', '--mount', 'sh', '-ec', set);
        const started = await own.driver.resume(trapped).catch((error) => error.code as string);
        if (typeof started === 'string') expect([trap, started]).toEqual([trap, 'start_failed']);
        else {
          const { output } = await shell(started, trapped, `timeout 5 grep -rslF '${secret}' /etc/ /run/`);
          expect([trap, output]).toEqual([trap, '']);
        }
        expect([trap, stateOfHost()]).toEqual([trap, before]);
      }
      await own.driver.remove(trapped.sandboxId);
      expect(await own.inventory()).toMatchObject(nothing);
    } finally {
      await own.close();
    }
  },
  300_000,
);
