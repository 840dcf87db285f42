import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { DiskCopy } from '../driver.ts';

const copyProgram = path.join(import.meta.dirname, 'copy-disk.pl');

/** Why the disk was not copied, in the words of the copying program. */
export class DiskCopyError extends Error {
  override name = 'DiskCopyError';
}

/**
 * Copies the mounted disk of a sandbox at one moment. `copy-disk.pl` says how that is consistent, and thaws the sandbox
 * whatever becomes of this process.
 * @throws {DiskCopyError} the sandbox goes on then, too
 */
export async function copyDisk(options: {
  /** Where the disk is mounted, as this process sees it. */
  mounted: string;
  disk: string;
  target: string;
  /** Of the disk's bytes, how many may be read into memory before the standstill. */
  warmBytes: number;
  /** The longest standstill. */
  seconds: number;
  /** What thaws the sandbox; no file where it is to stay frozen. */
  thaw: { files: readonly string[]; text: string };
  /** Groups that the copying program joins, out of those of this process. */
  groups: readonly string[];
  /** Makes the sandbox stand still. */
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
      if (bytes && begun !== null) return { standstillMs: Math.round(performance.now() - begun), bytes: Number(bytes) };
    }
  } finally {
    signal.removeEventListener('abort', stop);
    program.stdin.end();
    // It thaws before it ends.
    await closed;
  }
  signal.throwIfAborted();
  throw new DiskCopyError(reason.trim() || 'the copying program ended without a word');
}
