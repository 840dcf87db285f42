import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

/**
 * Runs `work` while this process is the only one on the machine that holds the lock of `file`. The kernel releases the
 * lock when its holder ends for any reason.
 * @throws {Error} when the lock cannot be taken; the errors of `work`
 */
export async function withFileLock<Result>(
  file: string,
  work: () => Promise<Result>,
  options: { onWait?: () => void; signal?: AbortSignal } = {},
): Promise<Result> {
  await mkdir(path.dirname(file), { recursive: true });
  const holder = spawn('flock', [file, 'sh', '-c', 'echo locked; exec cat'], {
    // This process's environment is not passed on, because it contains the platform's secrets.
    env: { PATH: process.env.PATH },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const waiting = options.onWait && setTimeout(options.onWait, 500);
  const abort = () => holder.kill('SIGKILL');
  options.signal?.addEventListener('abort', abort, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      holder.stdout.once('data', () => resolve());
      holder.once('error', reject);
      holder.once('exit', () => reject(options.signal?.reason ?? new Error(`could not lock ${file}`)));
    });
    clearTimeout(waiting);
    options.signal?.removeEventListener('abort', abort);
    options.signal?.throwIfAborted();
    return await work();
  } finally {
    clearTimeout(waiting);
    options.signal?.removeEventListener('abort', abort);
    holder.stdin.end();
  }
}
