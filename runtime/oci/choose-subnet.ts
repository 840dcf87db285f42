import { randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { runCommand } from '../process/command.ts';
import type { Copy } from './copy.ts';
import { type AddressRow, interfaceAddresses, type RouteRow, routes } from './host-routes.ts';
import { formatIpv4Network, type Ipv4Network, overlaps, parseIpv4, parseIpv4Network } from './ipv4.ts';

/**
 * The subnet of a copy: the wanted one, otherwise that of earlier processes, otherwise a free one. It is stored.
 * @throws {Error} when something else on this machine uses it
 */
export async function chooseSubnet(copy: Copy, wanted: string | undefined): Promise<Ipv4Network> {
  const file = path.join(copy.folder, 'network.json');
  const foreign = (await routes())
    .filter((route) => route.dst !== 'default' && !route.dev?.startsWith(copy.interface))
    .map((route) => ({ route, network: parseIpv4Network(route.dst) }));
  // If the file is lost, the kernel still has routes in the subnet of the running sandboxes.
  const kept = readDocumentOrSetAside(file, z.object({ subnet: z.cidrv4() }))?.subnet ?? (await subnetInKernel(copy));
  const conflict = (network: Ipv4Network) =>
    foreign.find((each) => overlaps(each.network, network) && formatIpv4Network(each.network) !== kept);
  if (wanted !== undefined || kept !== undefined) {
    const subnet = parseIpv4Network(wanted ?? kept!);
    if (subnet.prefixLength < 16 || subnet.prefixLength > 24) {
      throw new Error(`the sandboxes' subnet ${wanted} must be a /16 to /24`);
    }
    const other = conflict(subnet);
    if (other) {
      throw new Error(
        `the sandboxes' subnet ${formatIpv4Network(subnet)} overlaps ${other.route.dst} of this machine; ` +
          'set PLATFORM_SANDBOX_SUBNET to another',
      );
    }
    await writeFileDurably(file, JSON.stringify({ subnet: formatIpv4Network(subnet) }));
    return subnet;
  }
  for (let tried = 0; tried < 1000; tried += 1) {
    const subnet = parseIpv4Network(`10.${randomInt(64, 224)}.${randomInt(16) * 16}.0/20`);
    if (conflict(subnet)) continue;
    await writeFileDurably(file, JSON.stringify({ subnet: formatIpv4Network(subnet) }));
    return subnet;
  }
  throw new Error('no free /20 in 10.0.0.0/8 was found for sandboxes; set PLATFORM_SANDBOX_SUBNET');
}

/** The subnet of an earlier host worker, read from its routes: unused addresses have an unreachable route. */
async function subnetInKernel(copy: Copy): Promise<string | undefined> {
  const rows: AddressRow[] = existsSync(`/sys/class/net/${copy.interface}`) ? await interfaceAddresses() : [];
  const gateway = rows.find((row) => row.ifname === copy.interface)?.addr_info[0]?.local;
  if (gateway === undefined) return undefined;
  const refused: RouteRow[] = JSON.parse(
    (await runCommand('ip', ['-json', '-4', 'route', 'show', 'type', 'unreachable'])) || '[]',
  );
  return refused.find(({ dst }) => dst !== 'default' && parseIpv4Network(dst).base + 1 === parseIpv4(gateway))?.dst;
}
