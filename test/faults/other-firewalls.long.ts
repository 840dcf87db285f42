import { BareDebian } from '../ops/bare-debian.ts';

/** The sandboxes' network beside the real ufw and firewalld, in a root folder and network namespace of their own. */

let debian: BareDebian;

beforeAll(async () => {
  const include = ['dbus', 'firewalld', 'iproute2', 'iptables', 'nftables', 'ufw'];
  debian = await BareDebian.make(
    ['domain', 'platform', 'runtime', 'test/faults/firewall-trial.ts', 'node_modules/ipaddr.js'],
    { include },
  );
}, 900_000);

afterAll(() => debian?.remove());

const outward = ['sandbox to the internet', 'sandbox to a service of the host'];
const inward = ['host to the sandbox', 'outside to a UDP port'];

test.each([
  {
    firewall: 'ufw',
    blocked: ['host to the sandbox'],
    changed: ['iptables-nft FORWARD', 'iptables-nft FORWARD', 'iptables-nft INPUT'],
    afterReload: [],
  },
  {
    firewall: 'firewalld',
    blocked: inward,
    changed: ['firewalld zone trusted'],
    // A reload forgets what is not in its permanent configuration.
    afterReload: ['firewalld zone trusted'],
  },
])(
  'beside $firewall, sandboxes reach what they may and nothing else, also after a reload',
  async ({ firewall, blocked, changed, afterReload }) => {
    const { output } = await debian.run('unshare', '--net', 'node', 'test/faults/firewall-trial.ts', firewall);
    const line = output.split('\n').find((each) => each.startsWith('{"alone"'));
    expect({ output, line }).toMatchObject({ line: expect.any(String) });
    expect(JSON.parse(line!)).toEqual({
      alone: { reachable: [...outward, ...inward], changed: [], advice: [] },
      // Without the exemption.
      blocked,
      first: { changed, advice: [] },
      passed: [...outward, ...inward],
      again: { changed: [], advice: [] },
      afterReload: { changed: afterReload, advice: [] },
      reloaded: [...outward, ...inward],
      remains: false,
    });
  },
  300_000,
);

test('a chain of nftables that drops sandboxes is named, until it accepts them', async () => {
  const all = [...outward, ...inward];
  expect(await tryBeside('nftables')).toEqual({
    alone: { reachable: all, changed: [], advice: [] },
    dropped: {
      reachable: ['sandbox to a service of the host', 'host to the sandbox'],
      advice: [
        'The chain forward of the table inet filter drops connections of sandboxes. Let it accept iifname "sb*" and oifname "sb*"',
      ],
    },
    accepted: { reachable: all, advice: [] },
  });
}, 300_000);

async function tryBeside(firewall: string): Promise<unknown> {
  const { output } = await debian.run('unshare', '--net', 'node', 'test/faults/firewall-trial.ts', firewall);
  const line = output.split('\n').find((each) => each.startsWith('{"alone"'));
  if (!line) throw new Error(output);
  return JSON.parse(line);
}
