import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Whether the machine has booted since this data folder's host last ran; remembers the present boot. */
export function hasRebooted(dataDir: string): boolean {
  const file = path.join(dataDir, 'boot-id');
  const now = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  let before: string | null = null;
  try {
    before = readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if (before !== now) writeFileSync(file, now);
  return before !== null && before !== now;
}
