import path from 'node:path';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../platform/config/readable-document.ts';
import { cacheDir } from '../../setup/toolchain/locations.mjs';
import { claimPorts } from './port-claims.ts';
import { isPortFree, portTakenText } from './port-probe.mjs';

/** The requested port is in use. */
export class PortTakenError extends Error {
  override name = 'PortTakenError';
}

export interface PortRequest {
  /** The key in the data folder's file, and the setting's name in errors, such as `PLATFORM_API_PORT`. */
  name: string;
  /** The port that the operator has set. 0 is any free port. */
  explicit?: number;
  /** The first port to try if none was set or stored. */
  preferred: number;
  /** The address on which it will be bound. */
  host?: string;
}

/** The number of ports after the preferred one that are tried. */
const searchWidth = 200;

/**
 * Gives each part its port. An explicit port is taken or refused. Otherwise it is the port that this data folder used
 * last time, so that addresses stay the same. Otherwise it is the first free port from the preferred one on, which is
 * then stored in `ports.json`. So two copies with two data folders run side by side without a setting, even if they
 * start at the same time.
 * @throws {PortTakenError} for an explicit port that is in use
 */
export async function choosePorts<Name extends string>(
  dataDir: string,
  requests: readonly (PortRequest & { name: Name })[],
  claimsDir = path.join(cacheDir(), 'locks'),
): Promise<Record<Name, number>> {
  return claimPorts(claimsDir, (claimedByOthers) => choose(dataDir, requests, claimedByOthers));
}

async function choose<Name extends string>(
  dataDir: string,
  requests: readonly (PortRequest & { name: Name })[],
  claimedByOthers: ReadonlySet<number>,
): Promise<Record<Name, number>> {
  const file = path.join(dataDir, 'ports.json');
  const remembered = readDocumentOrSetAside(file, z.record(z.string(), z.int().min(1).max(65_535))) ?? {};
  const chosen = new Map<string, number>();
  const isUsable = async (port: number, host?: string) =>
    ![...chosen.values()].includes(port) && !claimedByOthers.has(port) && (await isPortFree(port, host));

  for (const { name, explicit, host } of requests) {
    if (!explicit) continue;
    if (!(await isUsable(explicit, host))) {
      throw new PortTakenError(portTakenText(name, explicit, host));
    }
    chosen.set(name, explicit);
  }
  for (const { name, explicit, preferred, host } of requests) {
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
