import net from 'node:net';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../config/readable-document.ts';
import { cacheDir } from '../../setup/toolchain/locations.mjs';
import { claimPorts } from './port-claims.ts';

/** The requested port is in use. */
export class PortTakenError extends Error {
  override name = 'PortTakenError';
}

export interface PortWish {
  /** Key in the data folder's memory, and the setting's name in errors: `PLATFORM_API_PORT`. */
  name: string;
  /** Port the operator named; 0 is any free one. */
  explicit?: number;
  /** Where to look first when nothing was named or remembered. */
  preferred: number;
  /** Address it will be bound on. */
  host?: string;
}

/** How far past the preferred port a free one is looked for. */
const searchWidth = 200;

/** Whether a listener could be bound there now. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = net.createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/**
 * Gives each part its port. An explicit one is taken or refused; else the one this data folder used last time, so that
 * addresses stay; else the first free one from the preferred port on, which is then remembered in `ports.json`. So two
 * copies with two data folders run side by side without a setting, even when they start at the same moment.
 * @throws {PortTakenError} for an explicit port that is taken
 */
export async function choosePorts<Name extends string>(
  dataDir: string,
  wishes: readonly (PortWish & { name: Name })[],
  claimsDir = path.join(cacheDir(), 'locks'),
): Promise<Record<Name, number>> {
  return claimPorts(claimsDir, (claimedByOthers) => choose(dataDir, wishes, claimedByOthers));
}

async function choose<Name extends string>(
  dataDir: string,
  wishes: readonly (PortWish & { name: Name })[],
  claimedByOthers: ReadonlySet<number>,
): Promise<Record<Name, number>> {
  const file = path.join(dataDir, 'ports.json');
  const remembered = readDocumentOrSetAside(file, z.record(z.string(), z.int().min(1).max(65_535))) ?? {};
  const chosen = new Map<string, number>();
  const isUsable = async (port: number, host?: string) =>
    ![...chosen.values()].includes(port) && !claimedByOthers.has(port) && (await isPortFree(port, host));

  for (const { name, explicit, host } of wishes) {
    if (!explicit) continue;
    if (!(await isUsable(explicit, host))) {
      throw new PortTakenError(`${name}: port ${explicit} is taken on ${host ?? '127.0.0.1'}`);
    }
    chosen.set(name, explicit);
  }
  for (const { name, explicit, preferred, host } of wishes) {
    if (explicit) continue;
    const before = remembered[name];
    const candidates = [
      ...(before ? [before] : []),
      ...Array.from({ length: searchWidth }, (_, step) => preferred + step),
    ];
    for (const port of candidates) {
      if (await isUsable(port, host)) {
        chosen.set(name, port);
        break;
      }
    }
    if (!chosen.has(name)) {
      throw new PortTakenError(`${name}: no free port from ${preferred} to ${preferred + searchWidth - 1}`);
    }
  }
  const ports = Object.fromEntries(chosen);
  writeFileDurablySync(file, `${JSON.stringify({ ...remembered, ...ports }, null, 2)}\n`);
  return ports as Record<Name, number>;
}
