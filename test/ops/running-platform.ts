import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { PlatformEnv } from '../../ops/local-stack/supervisor/platform-env.ts';

const startScript = path.join(import.meta.dirname, 'programs/start.ts');

/** A range of ports for this test file only: other platforms on the machine use the default ports. */
const portsFrom = 31_000 + (process.pid % 80) * 20;

/** A supervisor in its own process, with a data folder in the system's temporary folder. */
export class RunningPlatform {
  readonly dataDir: string;
  readonly child: ChildProcess;
  errors = '';
  #exit: Promise<unknown[]>;

  constructor(dataDir: string, env: NodeJS.ProcessEnv) {
    this.dataDir = dataDir;
    this.child = spawn(process.execPath, [startScript], {
      // Programs do not inherit Jest's own options.
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

  /** Resolves with its report when it is ready. Rejects with its errors when it ends before. */
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

  /** The data that the replacement of a process stored in the data folder. */
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

/** Repeats the question until the answer is not undefined. */
export async function eventually<Answer>(ask: () => Answer | undefined, timeoutMs = 60_000): Promise<Answer> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = ask();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error('it did not happen in time');
    await delay(20);
  }
}
