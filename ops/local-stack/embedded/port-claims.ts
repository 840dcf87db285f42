import path from 'node:path';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../platform/config/readable-document.ts';
import { lockFile } from '../../setup/file-lock.mjs';
import { processStartedAt } from './process-record.ts';

const claimSchema = z.object({ pid: z.int().positive(), startedAt: z.string() });
const claimsSchema = z.record(z.string(), claimSchema);
type Claim = z.output<typeof claimSchema>;

/**
 * Records the ports that processes of the platform on this machine have chosen, because between its choice and its use
 * a port still looks free. A claim ends with its process.
 * @param dir a folder that all copies on the machine share
 * @param choose gets the ports of others, and returns its choice; choices run one at a time
 */
export async function claimPorts<Ports extends Record<string, number>>(
  dir: string,
  choose: (claimedByOthers: ReadonlySet<number>) => Promise<Ports>,
): Promise<Ports> {
  const file = path.join(dir, 'ports.json');
  const lock = await lockFile(path.join(dir, 'ports.lock'), { wait: true });
  try {
    const known = readDocumentOrSetAside(file, claimsSchema) ?? {};
    const live = Object.entries(known).filter(([, { pid, startedAt }]) => processStartedAt(pid) === startedAt);
    const others = live.filter(([, { pid }]) => pid !== process.pid);
    const ports = await choose(new Set(others.map(([port]) => Number(port))));
    const mine: Claim = { pid: process.pid, startedAt: processStartedAt(process.pid)! };
    const claims = {
      ...Object.fromEntries(live),
      ...Object.fromEntries(Object.values(ports).map((port) => [port, mine])),
    };
    writeFileDurablySync(file, JSON.stringify(claims, null, 2));
    return ports;
  } finally {
    await lock.release();
  }
}
