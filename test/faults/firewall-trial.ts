import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fullPath } from '../../platform/config/programs.mjs';
import { firewallRules } from '../../runtime/oci/nft-rules.ts';
import { droppingChains, forgetOtherFirewalls, passOtherFirewalls } from '../../runtime/oci/other-firewalls.ts';

/**
 * Runs with a root folder and a network namespace of its own: a machine with the sandboxes' firewall, one sandbox, and
 * a machine outside. Starts the firewall of its argument, `ufw`, `firewalld` or a table of nftables, and prints what is
 * reachable then.
 */

const prefix = 'sb0a1b2c-';
const run = (words: string) => {
  const [program = '', ...args] = words.split(' ');
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
};

function makeMachines(): void {
  // The root folder serves several trials.
  run('mount -t tmpfs none /run');
  for (const name of ['sandbox', 'outside']) run(`ip netns add ${name}`);
  const batch = (lines: string, where: string[] = []) =>
    execFileSync(where[0] ?? 'ip', [...where.slice(1), ...(where[0] ? ['ip'] : []), '-batch', '-'], { input: lines });
  batch(`link set lo up
link add up0 type veth peer name eth0 netns outside
address add 203.0.113.1/24 dev up0
link set up0 up
route add default via 203.0.113.2
link add ${prefix}2 group 20471 type veth peer name eth0 netns sandbox
link set ${prefix}2 up
address add 10.99.0.1/32 dev lo
route add 10.99.0.2/32 dev ${prefix}2 src 10.99.0.1
`);
  const inside = (name: string) => ['ip', 'netns', 'exec', name];
  batch(
    'link set lo up\naddress add 203.0.113.2/24 dev eth0\naddress add 1.1.1.1/32 dev lo\nlink set eth0 up\n',
    inside('outside'),
  );
  batch(
    'link set lo up\naddress add 10.99.0.2/32 dev eth0\nlink set eth0 up\nroute add 10.99.0.1 dev eth0\nroute add default via 10.99.0.1\n',
    inside('sandbox'),
  );
  fs.writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
  execFileSync('nft', ['-f', '-'], {
    input: firewallRules({
      ...{ table: 'sandboxes', interfacePrefix: prefix, internetGroup: 20471, subnet: '10.99.0.0/24', resolvers: [] },
      hostNetworks: ['203.0.113.0/24'],
      hostServices: [{ address: '10.99.0.1', port: 7777 }],
      ...{ openServers: [], routedNetworks: [], udpRange: { first: 30_000, last: 30_100 } },
      udpRoutes: [{ hostPort: 30_001, address: '10.99.0.2', servicePort: 5000 }],
      storage: { gid: 9999, resolvers: [], allowedRanges: [], ownServices: [] },
    }),
  });
}

const tcpServer = (port: number) =>
  `require('net').createServer((it) => it.end()).listen(${port}, () => console.log('ready'))`;
const udpServer = (port: number) =>
  `const it = require('dgram').createSocket('udp4'); it.on('message', (text, from) => it.send(text, from.port, from.address)); it.bind(${port}, () => console.log('ready'))`;

/** Runs until this process ends. */
async function serve(where: string | null, source: string): Promise<void> {
  const words = [...(where ? ['ip', 'netns', 'exec', where] : []), process.execPath, '-e', source];
  const server = spawn(words[0]!, words.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  process.once('exit', () => server.kill());
  await once(server.stdout, 'data');
}

const connect = (address: string, port: number) =>
  `const it = require('net').connect(${port}, '${address}', () => process.exit(0)); it.on('error', () => process.exit(1)); setTimeout(() => process.exit(1), 3000)`;
const exchange = (address: string, port: number) =>
  `const it = require('dgram').createSocket('udp4'); it.on('message', () => process.exit(0)); it.on('error', () => process.exit(1)); it.send('x', ${port}, '${address}'); setTimeout(() => process.exit(1), 3000)`;

const ways: [name: string, from: string | null, source: string][] = [
  ['sandbox to the internet', 'sandbox', connect('1.1.1.1', 80)],
  ['sandbox to a service of the host', 'sandbox', connect('10.99.0.1', 7777)],
  ['host to the sandbox', null, connect('10.99.0.2', 49_983)],
  ['outside to a UDP port', 'outside', exchange('203.0.113.1', 30_001)],
  ['sandbox to the network of the host', 'sandbox', connect('203.0.113.2', 80)],
  ['sandbox to another port of the host', 'sandbox', connect('10.99.0.1', 2222)],
];

const reachable = (): string[] =>
  ways
    .filter(([, from, source]) => {
      const words = [...(from ? ['ip', 'netns', 'exec', from] : []), process.execPath, '-e', source];
      return spawnSync(words[0]!, words.slice(1)).status === 0;
    })
    .map(([name]) => name);

async function startFirewalld(): Promise<void> {
  fs.mkdirSync('/run/dbus', { recursive: true });
  const bus = spawn('dbus-daemon', ['--system', '--nofork', '--nopidfile'], { stdio: 'inherit' });
  const firewall = spawn('firewalld', ['--nofork', '--nopid'], { stdio: ['ignore', 'ignore', 'ignore'] });
  process.once('exit', () => {
    firewall.kill();
    bus.kill();
  });
  for (let tries = 0; spawnSync('firewall-cmd', ['--state']).status !== 0; tries += 1) {
    if (tries > 200) throw new Error('firewalld does not start');
    await delay(200);
  }
}

process.env.PATH = fullPath();
makeMachines();
await serve('outside', tcpServer(80));
await serve(null, tcpServer(7777));
await serve(null, tcpServer(2222));
await serve('sandbox', tcpServer(49_983));
await serve('sandbox', udpServer(5000));
const alone = { reachable: reachable(), ...(await passOtherFirewalls(prefix)) };
if (process.argv[2] === 'nftables') {
  const load = (input: string) => execFileSync('nft', ['-f', '-'], { input });
  load('table inet filter { chain forward { type filter hook forward priority filter; policy drop; }; }');
  const dropped = { reachable: reachable(), advice: await droppingChains(prefix) };
  load('add rule inet filter forward iifname "sb*" accept; add rule inet filter forward oifname "sb*" accept');
  console.log(
    JSON.stringify({ alone, dropped, accepted: { reachable: reachable(), advice: await droppingChains(prefix) } }),
  );
  process.exit(0);
}
const isUfw = process.argv[2] === 'ufw';
if (isUfw) run('ufw --force enable');
else await startFirewalld();
const blocked = reachable();
const first = await passOtherFirewalls(prefix);
const passed = reachable();
const again = await passOtherFirewalls(prefix);
run(isUfw ? 'ufw reload' : 'firewall-cmd --reload');
const afterReload = await passOtherFirewalls(prefix);
const reloaded = reachable();
await forgetOtherFirewalls(prefix);
const remains = `${run('nft list ruleset')}`.replaceAll(/table inet sandboxes \{[\s\S]*?\n\}\n/g, '').includes(prefix);
console.log(JSON.stringify({ alone, blocked, first, passed, again, afterReload, reloaded, remains }));
process.exit(0);
