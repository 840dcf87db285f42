import { jest } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { until } from '../../runtime/process/until.ts';
import { askUdp, udpEcho } from '../support/udp.ts';
import { LocalHost, onHost, shell } from './local-host.ts';
import { OutsideNetwork } from './outside-network.ts';

jest.setTimeout(300_000);

let host: LocalHost;
let outside: OutsideNetwork;

beforeAll(async () => {
  outside = new OutsideNetwork(10);
  host = await LocalHost.open();
}, 300_000);

afterAll(() => host.closeEmpty());
afterAll(async () => {
  outside.remove();
});

const hostPort = (at: number) => host.driver.udpRange!.first + at;
/** Asks from another machine, at its address of the host. */
const askFromOutside = (port: number, waitMs?: number, fromPort?: number) =>
  askUdp(`${outside.near}:${port}`, 'hello', { through: outside.command(), waitMs, fromPort });

/** A sandbox with an echo on UDP port 5000, which is reached through these ports of the host. */
async function echoSandbox(...hostPorts: number[]): Promise<{ spec: SandboxSpec; place: SandboxPlace }> {
  const spec = host.spec({ udpPorts: hostPorts.map((each) => ({ hostPort: each, servicePort: 5000 })) });
  const place = await host.driver.create(spec);
  await startEcho(spec, place);
  return { spec, place };
}

async function startEcho(spec: SandboxSpec, place: SandboxPlace): Promise<void> {
  const program = Buffer.from(udpEcho(5000)).toString('base64');
  const { exitCode, output } = await shell(
    place,
    spec,
    `echo ${program} | base64 -d > /root/echo.cjs; setsid /.platform/bin/node /root/echo.cjs < /dev/null > /dev/null 2>&1 &`,
  );
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' });
}

test('a UDP port is reached from another machine and from the host, and sees their real addresses', async () => {
  const { spec } = await echoSandbox(hostPort(0));
  expect(await askFromOutside(hostPort(0))).toBe(`${outside.near}:${hostPort(0)} echo hello to ${outside.far}`);
  const { hostAddress } = host.driver;
  expect(await askUdp(`${hostAddress}:${hostPort(0)}`, 'hello')).toBe(
    `${hostAddress}:${hostPort(0)} echo hello to ${hostAddress}`,
  );
  expect(await askFromOutside(hostPort(1), 500)).toBe('');
  await host.driver.remove(spec.sandboxId);
});

test('a removed port is closed at once, also for current flows, and may lead to another sandbox', async () => {
  const [first, second] = await Promise.all([echoSandbox(hostPort(0), hostPort(1)), echoSandbox()]);
  const ask = (port: number, waitMs?: number) => askFromOutside(port, waitMs, 40_000 + port - hostPort(0));
  expect(await ask(hostPort(0))).toContain('echo hello');
  expect(await ask(hostPort(1))).toContain('echo hello');
  const kept = [{ hostPort: hostPort(0), servicePort: 5000 }];
  await host.driver.exposeUdp(first.spec.sandboxId, kept);
  expect(await ask(hostPort(1), 700)).toBe('');
  expect(await ask(hostPort(0))).toContain('echo hello');
  await host.driver.exposeUdp(second.spec.sandboxId, kept);
  expect((await host.inventory()).udpRoutes).toEqual([`${hostPort(0)} → ${second.place.address}:5000`]);
  expect(await ask(hostPort(0), 700)).toBe('');
  expect(await askFromOutside(hostPort(0))).toContain('echo hello');
  await Promise.all([first, second].map(({ spec }) => host.driver.remove(spec.sandboxId)));
  expect((await host.inventory()).udpRoutes).toEqual([]);
});

test('a sandbox without internet access answers requests, and cannot send first', async () => {
  const { spec, place } = await echoSandbox(hostPort(2));
  expect(spec.allowInternetAccess).toBe(false);
  expect(await askFromOutside(hostPort(2))).toContain('echo hello');
  const send = `import socket; s = socket.socket(2, 2); s.bind(("", 6000)); s.settimeout(1); s.sendto(b"x", ("${outside.far}", 9)); s.recv(9)`;
  expect((await shell(place, spec, `python3 -c '${send}'`)).exitCode).not.toBe(0);
  await host.driver.remove(spec.sandboxId);
});

test('a sandbox does not reach another by its port of the host', async () => {
  const { spec } = await echoSandbox(hostPort(3));
  const asker = host.spec({ allowInternetAccess: true });
  const place = await host.driver.create(asker);
  for (const address of [host.driver.hostAddress, host.driver.gateway, outside.near]) {
    const send = `import socket; s = socket.socket(2, 2); s.settimeout(1); s.sendto(b"x", ("${address}", ${hostPort(3)})); print(s.recv(99))`;
    const { exitCode, output } = await shell(place, asker, `python3 -c '${send}'`);
    expect(exitCode).not.toBe(0);
    expect(output).not.toContain('echo');
  }
  await Promise.all([spec, asker].map((each) => host.driver.remove(each.sandboxId)));
});

test('a port survives a pause, a new host worker, a flushed firewall, and a new start on the disk', async () => {
  const { spec, place } = await echoSandbox(hostPort(4));
  await host.driver.pause(spec.sandboxId);
  await host.driver.close();
  await host.start();
  await host.driver.resume(spec);
  expect(await askFromOutside(hostPort(4))).toContain('echo hello');

  onHost('nft', 'delete', 'table', 'inet', `sandboxes_${host.copy.id}`);
  expect(await until(async () => (await host.inventory()).firewall, { timeoutSeconds: 60, everyMs: 100 })).toBe(true);
  expect(await askFromOutside(hostPort(4))).toContain('echo hello');

  await host.driver.stop(spec.sandboxId);
  expect((await host.inventory()).udpRoutes).toEqual([]);
  const again = await host.driver.resume(spec);
  await startEcho(spec, again);
  expect(again.address).not.toBe(place.address);
  expect((await host.inventory()).udpRoutes).toEqual([`${hostPort(4)} → ${again.address}:5000`]);
  expect(await askFromOutside(hostPort(4))).toContain('echo hello');
  await host.driver.remove(spec.sandboxId);
});

test('a sandbox at its limit of flows is closed to new ones; its neighbour is not', async () => {
  const [crowded, neighbour] = await Promise.all([echoSandbox(hostPort(6)), echoSandbox(hostPort(7))]);
  expect(await askFromOutside(hostPort(6))).toContain('echo hello');
  const [command, before] = outside.command(process.execPath, '-e', crowd, outside.near, String(hostPort(6)));
  const answered = Number(onHost(command, ...before));
  expect(answered).toBeGreaterThan(2000);
  expect(answered).toBeLessThanOrEqual(2048);
  // On a busy machine the clients may give up just before the last flow is accepted.
  for (let more = 0; (await askFromOutside(hostPort(6), 500)) !== ''; more += 1) expect(more).toBeLessThan(200);
  expect(await askFromOutside(hostPort(7))).toContain('echo hello');
  await Promise.all([crowded, neighbour].map(({ spec }) => host.driver.remove(spec.sandboxId)));
});

test('a sandbox that does not run has no port', async () => {
  const { spec } = await echoSandbox(hostPort(5));
  await host.driver.stop(spec.sandboxId);
  const exposed = host.driver.exposeUdp(spec.sandboxId, spec.udpPorts);
  await expect(exposed).rejects.toMatchObject({ code: 'sandbox_absent' });
  await host.driver.remove(spec.sandboxId);
});

test('two copies on one machine have ranges of their own, and a range that is taken is refused', async () => {
  await using other = await LocalHost.open();
  const [mine, its] = [host.driver.udpRange!, other.driver.udpRange!];
  expect(its.first > mine.last || its.last < mine.first).toBe(true);
  await other.driver.close();
  await other.start();
  expect(other.driver.udpRange).toEqual(its);
  await other.driver.close();
  const wanted = { first: mine.last, last: mine.last + 1 };
  await expect(other.start({ udpPorts: wanted })).rejects.toThrow(/overlap/);
  await other.start({ udpPorts: null });
  expect(other.driver.udpRange).toBeNull();
  await other.close();
});

/**
 * Asks from 2,500 ports and repeats unanswered ones until there are no new answers for two seconds. Prints the number
 * of answered ones.
 */
const crowd = `
const [address, port] = process.argv.slice(1);
const open = new Set();
let answered = 0;
for (let at = 0; at < 2500; at += 1) {
  const socket = require('dgram').createSocket('udp4');
  socket.once('message', () => { answered += 1; open.delete(socket); socket.close(); });
  open.add(socket);
}
let [before, quiet] = [0, 0];
const ask = () => {
  quiet = answered === before ? quiet + 1 : 0;
  before = answered;
  // Silence means a closed port only near the limit; before that the machine is busy. A flow is counted for half a
  // minute.
  if (quiet >= (answered > 2000 ? 8 : 40) && answered > 0) { console.log(answered); process.exit(); }
  for (const socket of open) socket.send('hello', Number(port), address);
};
setInterval(ask, 250);
`;
