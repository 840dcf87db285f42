import fs from 'node:fs';
import os from 'node:os';

/**
 * The memory that a new process can use, in bytes. `/proc/meminfo` of a sandbox is some seconds old, so the use comes
 * from the control group. The group also counts file cache, which the kernel gives up first.
 */
export function freeMemoryBytes(): number {
  const limit = process.constrainedMemory();
  if (limit === 0 || limit > os.totalmem()) return os.freemem();
  return process.availableMemory() + cacheBytes();
}

function cacheBytes(): number {
  const text = fs.readFileSync('/proc/meminfo', 'latin1');
  const [free, available] = ['MemFree', 'MemAvailable'].map((name) =>
    Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0),
  );
  return Math.max(0, available! - free!) * 1024;
}
