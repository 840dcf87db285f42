import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { DiskCopy } from '../driver.ts';

const copyProgram = path.join(import.meta.dirname, 'copy-disk.pl');

/** The disk could not be copied. The message is the copying program's. */
export class DiskCopyError extends Error {
  override name = 'DiskCopyError';
}

/**
 * Copies the mounted disk of a sandbox at one moment. `copy-disk.pl` describes how the copy is consistent. It thaws the
 * sandbox even if this process dies.
 * @throws {DiskCopyError} after which the sandbox also continues
 */
export async function copyDisk(options: {
  /** The mount point of the disk for this process. */
  mounted: string;
  disk: string;
  target: string;
  /** The number of the disk's bytes that may be read into memory before the freeze. */
  warmBytes: number;
  /** The longest time that the sandbox may be frozen. */
  seconds: number;
  /** The files that thaw the sandbox. Empty if it is to stay frozen. */
  thaw: { files: readonly string[]; text: string };
  /** Groups that the copying program joins, to leave those of this process. */
  groups: readonly string[];
  /** Freezes the sandbox. */
  freeze: () => Promise<void>;
  signal: AbortSignal;
}): Promise<DiskCopy> {
  const { mounted, disk, target, warmBytes, seconds, thaw, groups, freeze, signal } = options;
  const words = {
    ...{ arch: process.arch, folder: mounted, disk, target, warmBytes, seconds },
    ...{ thaw: thaw.files.join(':'), thawText: thaw.text, groups: groups.join(':') },
  };
  const program = spawn('perl', [copyProgram, ...Object.entries(words).map(([key, value]) => `${key}=${value}`)], {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  program.stdin.on('error', () => {});
  let reason = '';
  program.stderr.setEncoding('latin1').on('data', (text: string) => {
    reason = (reason + text).slice(-1000);
  });
  const closed = new Promise<void>((resolve, reject) => {
    program.once('error', reject);
    program.once('close', () => resolve());
  });
  closed.catch(() => {});
  const stop = () => program.kill('SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  let begun: number | null = null;
  try {
    for await (const line of createInterface({ input: program.stdout })) {
      if (line === 'ready') {
        begun = performance.now();
        await freeze();
        program.stdin.write('copy\n');
      }
      const [, bytes] = /^copied (\d+)$/.exec(line) ?? [];
      if (bytes && begun !== null) return { frozenMs: Math.round(performance.now() - begun), bytes: Number(bytes) };
    }
  } finally {
    signal.removeEventListener('abort', stop);
    program.stdin.end();
    // The program thaws the sandbox before it ends.
    await closed;
  }
  signal.throwIfAborted();
  throw new DiskCopyError(reason.trim() || 'the copying program ended without a word');
}
