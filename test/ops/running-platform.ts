import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { PlatformEnv } from '../../ops/local-stack/supervisor/platform-env.ts';

const startScript = path.join(import.meta.dirname, 'programs/start.ts');

/** A place of this test file's own: other platforms on the machine come and go at the usual ports. */
const portsFrom = 31_000 + (process.pid % 80) * 20;

/** A supervisor in a process of its own, on a data folder in the system's temporary folder. */
export class RunningPlatform {
  readonly dataDir: string;
  readonly child: ChildProcess;
  errors = '';
  #exit: Promise<unknown[]>;

  constructor(dataDir: string, env: NodeJS.ProcessEnv) {
    this.dataDir = dataDir;
    this.child = spawn(process.execPath, [startScript], {
      // Jest's own options are not for programs of ours.
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        PLATFORM_PORTS_FROM: `${portsFrom}`,
        ...env,
        PLATFORM_DATA_DIR: dataDir,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stderr!.on('data', (chunk) => {
      this.errors += chunk;
    });
    this.#exit = once(this.child, 'exit');
  }

  /** What it says when it is ready; its errors as a rejection when it ends first. */
  async ready(): Promise<{ env: PlatformEnv; newApiKey?: string }> {
    const line = once(createInterface(this.child.stdout!), 'line').then(([text]) => JSON.parse(text));
    const ended = once(this.child, 'close').then(() => {
      throw new Error(this.errors);
    });
    return Promise.race([line, ended]);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.child.kill(signal);
    await this.#exit;
  }

  /** What the stand-in of a process left in the data folder. */
  process(name: string): {
    pid: number;
    PLATFORM_URL: string;
    DATABASE_URL: string;
    DATABASE_OWNER_URL?: string;
    TEMPORAL_ADDRESS: string;
  } {
    return JSON.parse(fs.readFileSync(path.join(this.dataDir, `${name}.json`), 'utf8'));
  }
}

export function newDataDir(): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'supervisor-test-'));
}

/** Asks until the answer is not undefined. */
export async function eventually<Answer>(ask: () => Answer | undefined, timeoutMs = 60_000): Promise<Answer> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = ask();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error('it did not happen in time');
    await delay(20);
  }
}
