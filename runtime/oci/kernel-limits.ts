import { readFile, writeFile } from 'node:fs/promises';
import type { DriverLogger } from '../driver-logger.ts';

/**
 * The number of terminals of the whole machine: if hundreds of sandboxes reach their own limits, the host still has
 * some.
 */
const terminals = { file: '/proc/sys/kernel/pty/max', atLeast: 65_536 };

/** Raises kernel limits that all sandboxes share, if a few sandboxes could exhaust the default. */
export async function raiseKernelLimits(logger: DriverLogger): Promise<void> {
  const { file, atLeast } = terminals;
  const now = Number(await readFile(file, 'latin1'));
  if (now >= atLeast) return;
  try {
    await writeFile(file, String(atLeast));
    logger.info({ before: now, now: atLeast }, 'raised the number of terminals (kernel.pty.max) for the sandboxes');
  } catch (error) {
    logger.warn(
      { err: error, now },
      'kernel.pty.max is low and could not be raised: sandboxes may run out of terminals',
    );
  }
}
