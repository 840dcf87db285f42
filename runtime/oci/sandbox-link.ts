import { existsSync, readFileSync } from 'node:fs';
import { runCommand } from '../process/command.ts';
import { parseIpv4 } from './ipv4.ts';
import type { SandboxConnection } from './network.ts';

const commandTimeoutSeconds = 5;

/** Routes of a network namespace, each as `<interface> <destination>`. */
type Routes = ReadonlySet<string>;

/** Reads the host's routes. They contain one route for each sandbox, so one read is enough to check all sandboxes. */
export function hostRoutes(): Routes {
  return readRoutes('/proc/net/route');
}

/**
 * Whether the link of a sandbox is complete: the host's route to it, the firewall's group, and the sandbox's default
 * route. It makes only a few small reads from the kernel, so that every sandbox can be checked every few seconds.
 * @param initPid the sandbox's first process, whose network namespace has the other end
 */
export function isLinkIntact(connection: SandboxConnection, initPid: number, ofHost: Routes): boolean {
  return isHostEndIntact(connection, ofHost) && isInnerEndIntact(connection, initPid);
}

/**
 * Restores the missing parts of a link as the shim had made them. The sandbox may run or be frozen. For its processes,
 * the interface returns with the same address.
 * @throws {CommandError} when the kernel refuses
 */
export async function repairLink(connection: SandboxConnection, initPid: number): Promise<void> {
  const { address, gateway, interface: name, mtu, group } = connection;
  const bytes = address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'));
  const own = `02:00:${bytes.join(':')}`;
  const other = `06:00:${bytes.join(':')}`;
  const batch = (command: string, words: string[], input: string) =>
    runCommand(command, words, { input, timeoutSeconds: commandTimeoutSeconds });
  const isThere = existsSync(`/sys/class/net/${name}`);
  const isNew = !isThere || !isInnerEndIntact(connection, initPid);
  const removed = isThere && isNew ? `link delete dev ${name}\n` : '';
  const made = isNew
    ? `link add name ${name} address ${other} mtu ${mtu} group ${group} type veth peer name eth0 address ${own} mtu ${mtu} netns ${initPid}
link set dev ${name} addrgenmode none
`
    : '';
  await batch(
    'ip',
    ['-batch', '-'],
    `${removed}${made}link set dev ${name} group ${group} up
neighbor replace ${address} lladdr ${own} dev ${name} nud permanent
route replace ${address}/32 dev ${name} src ${gateway}
`,
  );
  if (!isNew) return;
  await batch(
    'nsenter',
    [`--net=/proc/${initPid}/ns/net`, 'ip', '-batch', '-'],
    `link set dev lo up
address replace ${address}/32 dev eth0
link set dev eth0 up
neighbor replace ${gateway} lladdr ${other} dev eth0 nud permanent
route replace ${gateway} dev eth0
route replace default via ${gateway}
`,
  );
}

function isHostEndIntact({ address, interface: name, group }: SandboxConnection, routes: Routes): boolean {
  const found = readIfThere(`/sys/class/net/${name}/netdev_group`);
  return Number(found ?? -1) === group && routes.has(routeTo(address, name));
}

function isInnerEndIntact({ gateway }: SandboxConnection, initPid: number): boolean {
  const routes = readRoutes(`/proc/${initPid}/net/route`);
  return routes.has(routeTo('0.0.0.0', 'eth0')) && routes.has(routeTo(gateway, 'eth0'));
}

/**
 * The kernel lists a route as `interface destination gateway flags …`, with addresses as numbers in the machine's byte
 * order.
 */
function readRoutes(file: string): Routes {
  const lines = (readIfThere(file) ?? '').split('\n').slice(1);
  return new Set(lines.map((line) => line.split('\t', 2).join(' ').trimEnd()));
}

function routeTo(destination: string, name: string): string {
  const number = Buffer.alloc(4);
  number.writeUInt32LE(parseIpv4(destination));
  return `${name} ${number.toString('hex').toUpperCase()}`;
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EINVAL') return null;
    throw error;
  }
}
