import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

/**
 * A lock that the kernel releases when its holder ends for any reason: flock(1) holds it while this process's end of
 * its standard input is open.
 */

/** Another process holds the lock. */
export class LockHeldError extends Error {
  /** @param {string} file */
  constructor(file) {
    super(`${file} is locked by another process`);
    this.name = 'LockHeldError';
  }
}

/**
 * Takes the lock of a file, and makes the file if it is missing.
 * @param {string} file
 * @param {{wait: boolean, stop?: AbortSignal}} options wait until it is free or `stop` is aborted, or fail at once
 * @returns {Promise<{release: () => Promise<void>}>}
 * @throws {LockHeldError} when it is taken and `wait` is false
 */
export async function lockFile(file, { wait, stop }) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const mode = wait ? [] : ['--nonblock', '--conflict-exit-code', '75'];
  // Its own session, so that Ctrl-C on the terminal does not release the lock while its owner still cleans up.
  const holder = spawn('flock', ['--no-fork', ...mode, file, 'sh', '-c', 'echo held; exec cat'], {
    // The environment of this process may contain the platform's secrets.
    env: { PATH: process.env.PATH },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const ended = new Promise((resolve) => holder.once('close', resolve));
  const complaint = [];
  holder.stderr.on('data', (chunk) => complaint.push(chunk));
  const giveUp = () => holder.kill();
  stop?.addEventListener('abort', giveUp, { once: true });
  try {
    await new Promise((resolve, reject) => {
      holder.once('error', reject);
      createInterface(holder.stdout).once('line', resolve);
      ended.then((code) =>
        reject(code === 75 ? new LockHeldError(file) : new Error(`flock ${file}: ${Buffer.concat(complaint)}`)),
      );
    });
  } finally {
    stop?.removeEventListener('abort', giveUp);
  }
  // The lock alone must not keep an otherwise finished process alive.
  holder.unref();
  for (const stream of [holder.stdin, holder.stdout, holder.stderr]) stream.unref?.();
  return {
    async release() {
      holder.ref();
      holder.stdin.end();
      await ended;
    },
  };
}
