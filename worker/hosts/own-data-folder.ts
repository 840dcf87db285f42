import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { countDisksOn } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import { writeFileDurablySync } from '../../platform/config/durable-file.ts';
import type { SandboxDriver } from '../../runtime/driver.ts';

/**
 * Holds a data folder until this process ends. Two host workers on one folder would remove each other's sandboxes. The lock
 * is an abstract socket, which the kernel releases however the process ends.
 * @throws {Error} when another host worker of this machine holds it
 */
export async function holdDataFolder(dataDir: string): Promise<void> {
  mkdirSync(dataDir, { recursive: true });
  // A name has at most 107 bytes.
  const name = createHash('sha256').update(realpathSync(dataDir)).digest('hex');
  const server = net.createServer((socket) => socket.destroy());
  try {
    await once(server.listen({ path: `\0sandbox-host-${name}` }).unref(), 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new Error(`Another host worker runs on ${dataDir}. Stop it first, or set another PLATFORM_DATA_DIR.`);
  }
}

/**
 * Refuses a data folder that does not contain this host's disks, such as the empty mount point of an unmounted disk.
 * Otherwise the host would report each of its sandboxes as lost, and would remove their disks when they are mounted
 * again.
 * @throws {Error} with the steps to resolve it
 */
export async function requireOwnDataFolder(
  orm: Orm,
  hostId: string,
  dataDir: string,
  driver: Pick<SandboxDriver, 'list'>,
): Promise<void> {
  const file = path.join(dataDir, 'host-id');
  if (existsSync(file)) return;
  const disks = await countDisksOn(orm.em, hostId);
  if (disks > 0 && (await driver.list()).length === 0) {
    throw new Error(
      `${dataDir} is empty, but host ${hostId} has the disks of ${disks} sandboxes. Mount its data disk (on a cluster: name ` +
        `the namespace of its sandboxes), or write ` +
        `${hostId} to ${file} to give these sandboxes up as lost`,
    );
  }
  mkdirSync(dataDir, { recursive: true });
  writeFileDurablySync(file, hostId);
}
