import { randomInt } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import type { PortRange } from '../host-driver.ts';
import { CommandError, runCommand } from '../process/command.ts';
import type { Copy } from './copy.ts';

const rangeSchema = z.object({ first: z.int().min(1).max(65_535), last: z.int().min(1).max(65_535) });

/** Blocks are taken from these ports, which are below the kernel's ephemeral ports. */
const lowest = 20_000;
const blockSize = 128;
const blocks = Math.floor((32_768 - lowest) / blockSize);

/**
 * The ports of the host that may be forwarded to sandboxes of this copy. Other copies read them from the firewall's set
 * `udp_range`.
 * @param wanted undefined: a free block, stored in the data folder
 * @throws {Error} when the wanted range overlaps another copy's range
 */
export async function chooseUdpRange(copy: Copy, wanted: PortRange | undefined): Promise<PortRange> {
  const foreign = await rangesOfOthers(copy);
  const isFree = (range: PortRange) => !foreign.some((other) => range.first <= other.last && other.first <= range.last);
  if (wanted) {
    if (isFree(wanted)) return wanted;
    throw new Error(
      `the UDP ports ${wanted.first}-${wanted.last} overlap those of another copy on this machine; set PLATFORM_UDP_PORTS to others`,
    );
  }
  const file = path.join(copy.folder, 'udp-ports.json');
  const [inKernel] = await readRange(copy.table);
  // Running sandboxes keep their ports even if the file with the block is lost.
  const kept = readDocumentOrSetAside(file, rangeSchema) ?? inKernel;
  if (kept && isFree(kept)) {
    await writeFileDurably(file, JSON.stringify(kept));
    return kept;
  }
  const start = randomInt(blocks);
  for (let tried = 0; tried < blocks; tried += 1) {
    const first = lowest + ((start + tried) % blocks) * blockSize;
    const range = { first, last: first + blockSize - 1 };
    if (!isFree(range)) continue;
    await writeFileDurably(file, JSON.stringify(range));
    return range;
  }
  throw new Error('other copies on this machine have all UDP ports from 20000 to 32767; set PLATFORM_UDP_PORTS');
}

async function rangesOfOthers(copy: Copy): Promise<PortRange[]> {
  const { nftables } = JSON.parse(await runCommand('nft', ['-j', 'list', 'tables', 'inet'])) as {
    nftables: { table?: { name: string } }[];
  };
  const names = nftables.flatMap(({ table }) => (table ? [table.name] : []));
  const others = names.filter((name) => /^sandboxes_[0-9a-f]+$/.test(name) && name !== copy.table);
  return (await Promise.all(others.map(readRange))).flat();
}

async function readRange(table: string): Promise<PortRange[]> {
  try {
    const text = await runCommand('nft', ['list', 'set', 'inet', table, 'udp_range']);
    return [...text.matchAll(/\b(\d+)-(\d+)\b/g)].map(([, first, last]) => ({
      first: Number(first),
      last: Number(last),
    }));
  } catch (error) {
    // The table was removed meanwhile, or has no UDP ports.
    if (error instanceof CommandError && error.exitCode === 1) return [];
    throw error;
  }
}
