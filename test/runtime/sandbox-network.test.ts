import { type ChildProcess, spawn } from 'node:child_process';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { until } from '../support/until.ts';
import { LocalHost, onHost, shell } from './local-host.ts';

/**
 * A stand-in for the internet: a network namespace with a link to the host. It has a web server that returns the
 * client's address, and a name server. Its four addresses are from a range for documentation, which is not a private
 * network.
 */
const taken = onHost('ip', 'route');
const bases = Array.from({ length: 64 }, (_, at) => ((process.pid + at) % 64) * 4);
const base = bases.find((each) => !new RegExp(`198\\.51\\.100\\.${each + 1}\\b`).test(taken))!;
const [near, far, web, dns] = [0, 1, 2, 3].map((at) => `198.51.100.${base + at}`) as [string, string, string, string];
const internet = { namespace: `internet-${process.pid}`, near, far, web, dns };
const internetProgram = `
const http = require('http'), dgram = require('dgram');
http.createServer((q, r) => {
  if (q.url === '/bulk') r.end(Buffer.alloc(10e6));
  else q.resume().on('end', () => r.end(q.socket.remoteAddress.replace('::ffff:', '')));
}).listen(8080, () => console.log('up'));
const dns = dgram.createSocket('udp4').bind(53, '${internet.dns}');
dns.on('message', (m, from) => {
  const answer = Buffer.concat([m.subarray(0, 2), Buffer.from('81800001000100000000', 'hex'), m.subarray(12, m.indexOf(0, 12) + 5),
    Buffer.from('c00c00010001000000010004', 'hex'), Buffer.from([${internet.web.replaceAll('.', ',')}])]);
  dns.send(answer, from.port, from.address);
});`;

let host: LocalHost;
let server: ChildProcess;
let hostServer: http.Server;
let open: { spec: SandboxSpec; place: SandboxPlace };
let closed: { spec: SandboxSpec; place: SandboxPlace };

beforeAll(async () => {
  const link = `in${process.pid}`;
  const inNamespace = ['-n', internet.namespace];
  onHost('ip', 'netns', 'add', internet.namespace);
  onHost('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'up', 'netns', internet.namespace);
  onHost('ip', 'address', 'add', near, 'peer', far, 'dev', link);
  onHost('ip', 'link', 'set', link, 'up');
  for (const address of [web, dns]) onHost('ip', 'route', 'add', address, 'via', far);
  onHost('ip', ...inNamespace, 'address', 'add', far, 'peer', near, 'dev', 'up');
  for (const address of [web, dns]) onHost('ip', ...inNamespace, 'address', 'add', address, 'dev', 'lo');
  for (const device of ['lo', 'up']) onHost('ip', ...inNamespace, 'link', 'set', 'dev', device, 'up');
  server = spawn('ip', ['netns', 'exec', internet.namespace, process.execPath, '-e', internetProgram]);
  await new Promise((resolve) => server.stdout!.once('data', resolve));
  hostServer = http.createServer((_request, reply) => reply.end('of the host')).listen(0, '0.0.0.0');

  host = await LocalHost.open({ dns: [internet.dns] });
  const make = async (allowInternetAccess: boolean) => {
    const spec = host.spec({ allowInternetAccess });
    return { spec, place: await host.driver.create(spec) };
  };
  [open, closed] = await Promise.all([make(true), make(false)]);
}, 300_000);

afterAll(() => host.closeEmpty());
afterAll(async () => {
  hostServer.close();
  server.kill();
  onHost('ip', 'netns', 'delete', internet.namespace);
});

const get = (from: typeof open, url: string) => shell(from.place, from.spec, `curl -sS --max-time 20 ${url}`);
const hostAddresses = () =>
  Object.values(os.networkInterfaces())
    .flat()
    .filter((each) => !each!.internal)
    .map((each) => (each!.family === 'IPv6' ? `[${each!.address.split('%')[0]}]` : each!.address));

test('with internet access it reaches the internet by name, as the host', async () => {
  expect(await get(open, 'http://somewhere.example:8080/')).toEqual({ exitCode: 0, output: near });
});

test('without internet access nothing gets out, not even DNS queries', async () => {
  expect((await get(closed, `http://${internet.web}:8080/`)).exitCode).not.toBe(0);
  expect((await get(closed, 'http://somewhere.example:8080/')).output).toMatch(/Could not resolve host/);
  const udp = `import socket; s = socket.socket(2, 2); s.settimeout(1); s.sendto(b"x" * 12, ("${internet.dns}", 53)); s.recv(9)`;
  expect((await shell(closed.place, closed.spec, `python3 -c '${udp}'`)).exitCode).not.toBe(0);
  expect((await shell(closed.place, closed.spec, `ping -c1 -W1 ${internet.web}`)).exitCode).not.toBe(0);
});

test('resolvers can be reached only on the DNS port', async () => {
  expect((await get(open, `http://${internet.dns}:8080/`)).exitCode).toBe(0);
  await using inside = await LocalHost.open({ dns: ['10.255.255.1'] });
  const rules = onHost('nft', 'list', 'chain', 'inet', `sandboxes_${inside.copy.id}`, 'outward');
  await inside.close();
  expect(rules).toMatch(/ip daddr 10\.255\.255\.1 udp dport 53 accept/);
  expect(rules.indexOf('@closed')).toBeGreaterThan(rules.indexOf('10.255.255.1'));
});

test('the host answers on none of its addresses', async () => {
  const { port } = hostServer.address() as AddressInfo;
  const addresses = [...hostAddresses(), '127.0.0.1', host.driver.subnet.replace(/\d+\/\d+$/, '1')];
  expect(addresses.length).toBeGreaterThan(2);
  for (const from of [open, closed]) {
    const urls = addresses.map((address) => `http://${address}:${port}/`).join(' ');
    const { exitCode, output } = await shell(
      from.place,
      from.spec,
      `for url in ${urls}; do curl -sS --max-time 1 $url && echo reached $url; done; true`,
    );
    expect(exitCode).toBe(0);
    expect(output).not.toMatch(/of the host|reached/);
    expect(output.match(/curl: /g)).toHaveLength(addresses.length);
  }
});

test.each([
  '10.0.0.1',
  '172.16.0.1',
  '192.168.0.1',
  '169.254.169.254',
  '100.64.0.1',
  '[fd00::1]',
  '[fe80::1%25eth0]',
  '[2001:db8::1]',
])('the private network around %s is closed', async (address) => {
  const { exitCode, output } = await get(open, `http://${address}/`);
  expect(exitCode).toBe(7);
  expect(output).toMatch(/Couldn't connect to server/);
});

test("the host's networks are closed, including the operator's", async () => {
  await using other = await LocalHost.open();
  const spec = other.spec({ allowInternetAccess: true });
  const place = await other.driver.create(spec);
  expect((await shell(place, spec, `curl -sS --max-time 2 http://${far}:8080/`)).exitCode).not.toBe(0);
  await other.close();
});

test('a neighbour cannot be reached, whether of the same copy or another', async () => {
  await using other = await LocalHost.open();
  const stranger = other.spec({ allowInternetAccess: true });
  const theirs = await other.driver.create(stranger);
  for (const [from, to] of [
    [open, closed.place],
    [closed, open.place],
    [open, theirs],
    [{ spec: stranger, place: theirs }, open.place],
  ] as const) {
    const { exitCode } = await get(from, `http://${to.address}:${to.agentPort}/health`);
    expect(exitCode).toBe(7);
    expect((await shell(from.place, from.spec, `ping -c1 -W1 ${to.address}`)).exitCode).not.toBe(0);
  }
  expect((await fetch(`http://${theirs.address}:${theirs.agentPort}/health`)).ok).toBe(true);
  await other.close();
});

test('traffic with other machines is limited to its rate, traffic with its host is not', async () => {
  await using paced = await LocalHost.open({ bandwidthMbps: 20, openServers: [{ address: internet.web, port: 8080 }] });
  const spec = paced.spec({ allowInternetAccess: true });
  const place = await paced.driver.create(spec);
  const limit = 20e6 / 8;
  const measureSpeed = async (script: string) => Number((await shell(place, spec, script)).output);
  const speeds = [
    await measureSpeed(`curl -sS -o /dev/null -w '%{speed_download}' http://${internet.web}:8080/bulk`),
    await measureSpeed(
      `head -c 10000000 /dev/zero > /dev/shm/up; curl -sS -o /dev/null -w '%{speed_upload}' -H Expect: --data-binary @/dev/shm/up http://${internet.web}:8080/`,
    ),
  ];
  for (const speed of speeds) {
    expect(speed).toBeGreaterThan(limit / 5);
    // One second's worth may be sent at once. The rest of the four arrives at the rate.
    expect(speed).toBeLessThan(limit * 1.45);
  }
  const body = new FormData();
  body.set('path', '/root/up');
  body.set('file', new Blob([Buffer.alloc(60e6)]));
  const startedMs = performance.now();
  await fetch(`http://${place.address}:${place.agentPort}/upload`, {
    method: 'POST',
    headers: { 'x-access-token': spec.accessToken! },
    body,
  });
  // At the limit it would take 24 seconds.
  expect(performance.now() - startedMs).toBeLessThan(20_000);
  await paced.close();
}, 300_000);

test('a packet with another sandbox’s address does not leave the link', async () => {
  const pid = (await host.inventory()).processes[0];
  const link = onHost('nsenter', `--net=/proc/${pid}/ns/net`, 'ip', '-json', '-4', 'address', 'show', 'dev', 'eth0');
  const own = JSON.parse(link)[0].addr_info[0].local;
  const victim = own === open.place.address ? closed.place.address : open.place.address;
  // Not even every privilege over the sandbox's network allows it: the host forges the packet from inside it.
  const inNetwork = (...words: string[]) => onHost('nsenter', `--net=/proc/${pid}/ns/net`, ...words);
  inNetwork('ip', 'address', 'add', `${victim}/32`, 'dev', 'eth0');
  const before = dropped();
  const send = `const s = require('dgram').createSocket('udp4'); s.bind(0, '${victim}', () => s.send('x', 8080, '${internet.web}', () => s.close()))`;
  inNetwork(process.execPath, '-e', send);
  await until(() => dropped() > before);
  expect(dropped()).toBe(before + 1);
  inNetwork('ip', 'address', 'delete', `${victim}/32`, 'dev', 'eth0');
});

/** Packets that the source check refused, counted by a rule before it. */
function dropped(): number {
  const table = `sandboxes_${host.copy.id}`;
  if (!onHost('nft', 'list', 'chain', 'inet', table, 'checked').includes('counter')) {
    onHost(
      'nft',
      'insert',
      'rule',
      'inet',
      table,
      'checked',
      'fib',
      'saddr',
      '.',
      'iif',
      'oif',
      'missing',
      'counter',
      'drop',
    );
  }
  return Number(/packets (\d+)/.exec(onHost('nft', 'list', 'chain', 'inet', table, 'checked'))![1]);
}

test('a neighbour can connect while a sandbox opens ten thousand connections', async () => {
  const hoard = `import socket, time
held = []
for n in range(10000):
  try: s = socket.socket()
  except OSError: break
  s.setblocking(False); s.connect_ex(("${internet.web}", 8080)); held.append(s)
def connected(s):
  try: s.getpeername(); return True
  except OSError: return False
end = time.time() + 40
while time.time() < end and sum(connected(s) for s in held) <= 900: time.sleep(0.5)
time.sleep(3.5)
print(len(held), sum(connected(s) for s in held))`;
  const { output } = await shell(open.place, open.spec, `ulimit -n $(ulimit -Hn); python3 -c '${hoard}'`);
  const [tried, connected] = output.split(' ').map(Number);
  expect(tried).toBeGreaterThan(4000);
  expect(connected).toBeGreaterThan(900);
  expect(connected).toBeLessThanOrEqual(2048);
  const started = performance.now();
  expect((await shell(closed.place, closed.spec, 'true')).exitCode).toBe(0);
  expect(performance.now() - started).toBeLessThan(20_000);
});

test('the firewall is restored after a flush', async () => {
  const table = `sandboxes_${host.copy.id}`;
  onHost('nft', 'delete', 'table', 'inet', table);
  const isReported = (warning: unknown) => /firewall had been removed and was restored/.test(JSON.stringify(warning));
  await until(() => host.warnings.some(isReported), 60_000);
  expect((await host.inventory()).firewall).toBe(true);
});
