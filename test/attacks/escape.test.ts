import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { LocalHost, onHost, shell } from '../runtime/local-host.ts';
import { onlyForUsers, type Technique, techniques } from './techniques.ts';

/**
 * Known ways out of a container, each tried in a running sandbox, as its root and as a user. A way is closed if the
 * kernel refuses it with the expected error. An attack that fails for another reason is a failed test.
 */
const secret = 'a secret of the host';
const abstractSocket = `host-${process.pid}`;
const memoryFile = `/dev/shm/host-${process.pid}`;
let host: LocalHost;
let spec: SandboxSpec;
let place: SandboxPlace;
let hostServer: http.Server;
let hostSocket: net.Server;
let stateBefore: ReturnType<typeof stateOfHost>;
const outcomes: Record<'root' | 'user', Record<string, string>> = { root: {}, user: {} };

const rows = Object.entries(techniques).flatMap(([target, list]) => list.map((each) => ({ target, ...each })));
const userRows = [...rows, ...onlyForUsers.map((each) => ({ target: 'the agent, by a user', ...each }))];
const formatName = (row: { target: string; technique: string }) => `${row.target}: ${row.technique}`;

beforeAll(async () => {
  host = await LocalHost.open();
  const canary = path.join(host.dataDir, 'canary');
  for (const file of [canary, memoryFile]) writeFileSync(file, secret);
  hostServer = http.createServer((_request, reply) => reply.end(secret)).listen(0, '0.0.0.0');
  hostSocket = net.createServer().listen({ path: `\0${abstractSocket}` });
  spec = host.spec({ memoryMb: 512 });
  place = await host.driver.create(spec);
  const [pid] = (await host.inventory()).processes;
  stateBefore = stateOfHost();
  const parameters = {
    secret,
    canary,
    memoryFile: path.relative('/dev/shm', memoryFile),
    abstractSocket,
    hostPid: process.pid,
    hostPort: (hostServer.address() as AddressInfo).port,
    uidBase: Number(/^\s*0\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/uid_map`, 'latin1'))![1]),
    hostAddresses: Object.values(os.networkInterfaces())
      .flatMap((each) => each!)
      .filter((each) => each.family === 'IPv4' && !each.internal)
      .map((each) => each.address),
  };
  const put = async (file: string, text: string) => {
    const form = new FormData();
    form.append('path', file);
    form.append('file', new Blob([text]));
    const address = `http://${place.address}:${place.agentPort}/upload`;
    const reply = await fetch(address, {
      method: 'POST',
      body: form,
      headers: { 'x-access-token': spec.accessToken! },
    });
    expect(reply.status).toBe(200);
  };
  await put('/opt/attack.py', readFileSync(path.join(import.meta.dirname, 'attack.py'), 'utf8'));
  for (const [as, list] of [
    ['root', rows],
    ['user', userRows],
  ] as const) {
    const attacks = list.map((row) => [formatName(row), row.attack]);
    await put(`/opt/${as}.json`, JSON.stringify({ parameters, attacks }));
    const command = `python3 /opt/attack.py /opt/${as}.json`;
    const script = `chmod 755 /opt; chmod 644 /opt/*; ${as === 'root' ? command : `su user -c '${command}'`}`;
    const { output } = await shell(place, spec, script, 100);
    outcomes[as] = JSON.parse(output.slice(output.indexOf('{')));
  }
}, 300_000);

afterAll(async () => {
  hostServer.close();
  hostSocket.close();
  rmSync(memoryFile);
});
afterAll(() => host.closeEmpty());
afterAll(async () => {
  const table = userRows.flatMap((row) =>
    (['root', 'user'] as const).flatMap((as) => {
      const what = outcomes[as][formatName(row)];
      return what === undefined ? [] : [`| ${formatName(row)} | ${as} | ${what} |`];
    }),
  );
  process.stdout.write(`| technique | as | what happened |\n|---|---|---|\n${table.join('\n')}\n`);
});

test.each(rows.map((row) => [formatName(row), row] as const))('its root is kept from %s', (name, row: Technique) => {
  expect(row.root).toContain(outcomes.root[name]);
});

test.each(userRows.map((row) => [formatName(row), row] as const))(
  'its user is kept from %s',
  (name, row: Technique) => {
    expect(row.user ?? row.root).toContain(outcomes.user[name]);
  },
);

test('the host is as it was before the attacks', () => {
  // Other programs of the machine may load modules in the meantime.
  expect(stateOfHost()).toEqual({ ...stateBefore, modules: expect.arrayContaining(stateBefore.modules) });
});

/** The state that a successful attack would have changed. */
function stateOfHost() {
  const settings = [
    'kernel/core_pattern',
    'kernel/modprobe',
    'kernel/hostname',
    'kernel/sysrq',
    'kernel/panic',
    'net/ipv4/ip_forward',
  ];
  const runtimeFolders = path.join(host.options().cacheDir, 'runtime');
  const files = readdirSync(runtimeFolders, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /^(agent\.cjs|catatonit)$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name));
  return {
    settings: settings.map((name) =>
      existsSync(`/proc/sys/${name}`) ? readFileSync(`/proc/sys/${name}`, 'latin1') : null,
    ),
    modules: (existsSync('/proc/modules') && readFileSync('/proc/modules', 'latin1').match(/^\S+/gm)) || [],
    devices: onHost('stat', '-c', '%n %u %g %a', '/dev/null', '/dev/zero', '/dev/urandom'),
    addresses: onHost('ip', '-4', '-brief', 'address', 'show', 'dev', 'lo'),
    programs: ['/usr/bin/crun', '/usr/bin/runc', ...files].map((file) =>
      createHash('sha256').update(readFileSync(file)).digest('hex'),
    ),
  };
}
