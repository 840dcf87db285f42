import fs from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';

/**
 * MiB that the kernel charges to the processes of a sandbox: their own memory, and the cache of the files that they
 * read.
 */
export function sandboxMemoryMib(sandboxId: SandboxId): { total: number; anonymous: number } {
  const folder = findCgroup('/sys/fs/cgroup', sandboxId);
  if (!folder) throw new Error(`no control group of ${sandboxId}`);
  const read = (name: string) => fs.readFileSync(path.join(folder, name), 'utf8');
  const isV1 = fs.existsSync(path.join(folder, 'memory.usage_in_bytes'));
  const anonymous = /^(?:total_rss|anon) (\d+)$/m.exec(read('memory.stat'))?.[1];
  const total = read(isV1 ? 'memory.usage_in_bytes' : 'memory.current');
  return { total: Number(total) / 2 ** 20, anonymous: Number(anonymous) / 2 ** 20 };
}

/** The sandbox's group in the hierarchy that counts memory. */
export function findCgroup(folder: string, name: string): string | null {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const child = path.join(folder, entry.name);
    const counts = ['memory.usage_in_bytes', 'memory.current'].some((file) => fs.existsSync(path.join(child, file)));
    if (entry.name === name && counts) return child;
    const found = findCgroup(child, name);
    if (found) return found;
  }
  return null;
}
