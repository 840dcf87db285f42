import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import net from 'node:net';

/** The resolvers of the host's own programs, possibly a local service. */
export function ownResolvers(): string[] {
  const text = existsSync('/etc/resolv.conf') ? readFileSync('/etc/resolv.conf', 'utf8') : '';
  const found = [...text.matchAll(/^nameserver\s+(\S+)/gm)].map((match) => match[1]!);
  return found.filter((address) => net.isIP(address) !== 0);
}

/** The host's resolvers. If the host uses a local service, the servers behind it. */
export async function upstreamResolvers(): Promise<string[]> {
  for (const file of ['/run/systemd/resolve/resolv.conf', '/etc/resolv.conf']) {
    if (!existsSync(file)) continue;
    const found = [...(await readFile(file, 'utf8')).matchAll(/^nameserver\s+(\d+\.\d+\.\d+\.\d+)/gm)].map(
      (match) => match[1]!,
    );
    const usable = found.filter((address) => !address.startsWith('127.'));
    if (usable.length > 0) return usable.slice(0, 3);
  }
  return [];
}
