import { CommandError, runCommand } from '../process/command.ts';

/** Whether a firewall table of the family inet is loaded. */
export async function hasFirewall(table: string): Promise<boolean> {
  try {
    await runCommand('nft', ['-t', 'list', 'table', 'inet', table]);
    return true;
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === 1) return false;
    throw error;
  }
}

/** The kernel's current port mappings: `<port of the host> → <address>:<port>`. */
export async function udpRoutesInKernel(table: string): Promise<string[]> {
  if (!(await hasFirewall(table))) return [];
  const text = await runCommand('nft', ['list', 'map', 'inet', table, 'udp_routes']);
  return [...text.matchAll(/(\d+) : ([\d.]+) \. (\d+)/g)].map(([, from, to, port]) => `${from} → ${to}:${port}`);
}
