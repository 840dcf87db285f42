import { CommandError, runCommand } from '../process/command.ts';

/** Whether a firewall table of the family inet is loaded. */
export async function hasFirewall(table: string): Promise<boolean> {
  return (await listed(['-t', 'list', 'table', 'inet', table])) !== null;
}

/** The kernel's current port mappings: `<port of the host> → <address>:<port>`. Null: the table is not loaded. */
export async function udpRoutesInKernel(table: string): Promise<string[] | null> {
  const text = await listed(['list', 'map', 'inet', table, 'udp_routes']);
  if (text === null) return null;
  return [...text.matchAll(/(\d+) : ([\d.]+) \. (\d+)/g)].map(([, from, to, port]) => `${from} → ${to}:${port}`);
}

/** Null: there is no such object. */
async function listed(args: string[]): Promise<string | null> {
  try {
    return await runCommand('nft', args);
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === 1) return null;
    throw error;
  }
}
