import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

const shimFile = path.join(import.meta.dirname, 'shim.pl');

/** A shim failed. The message is `<step> <reason>`. */
export class LaunchError extends Error {
  override name = 'LaunchError';
}

/** Steps that the shim reports, in their order. */
export type LaunchStep = 'disk' | 'root' | 'container' | 'network' | 'start';

export interface LaunchOptions {
  /** The sandbox's folder. */
  folder: string;
  /** `key=value` for the shim. Visible in the machine's process list. */
  args: Record<string, string | number>;
  onStep?: (step: LaunchStep) => void;
  signal?: AbortSignal;
}

/** Gives the agent its secret boot document, with which it starts. */
export type Boot = (document: object) => void;

/**
 * Starts a sandbox under its own shim, which outlives this process. Its agent waits for the boot document.
 * @returns the boot function, when the container runs and has its network
 * @throws {LaunchError} with the shim's reason, after which no process of the sandbox runs
 */
export async function launch(options: LaunchOptions): Promise<Boot> {
  const log = openSync(path.join(options.folder, 'shim.log'), 'a', 0o600);
  const words = Object.entries(options.args).map(([key, value]) => `${key}=${value}`);
  const shim = spawn('perl', [shimFile, ...words], {
    cwd: options.folder,
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    detached: true,
    stdio: ['pipe', 'pipe', log],
  });
  closeSync(log);
  shim.unref();
  const stdin = shim.stdin!;
  // If the agent ends before it has read the document, the shim reports that.
  stdin.on('error', () => {});
  const abort = () => shim.kill('SIGTERM');
  options.signal?.addEventListener('abort', abort, { once: true });
  if (options.signal?.aborted) abort();
  let failure = 'the shim ended without a word';
  try {
    const started = await new Promise<boolean>((resolve, reject) => {
      let done = false;
      shim.once('error', reject);
      shim.once('exit', () => resolve(done));
      createInterface({ input: shim.stdout! }).on('line', (line) => {
        if (line.startsWith('error ')) failure = line.slice('error '.length);
        else {
          options.onStep?.(line as LaunchStep);
          if (line === 'start') {
            done = true;
            resolve(true);
          }
        }
      });
    });
    if (started) return (document) => stdin.end(JSON.stringify(document));
  } finally {
    options.signal?.removeEventListener('abort', abort);
  }
  stdin.destroy();
  throw new LaunchError(failure);
}
