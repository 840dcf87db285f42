import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** A further process of the API for a running platform. */
export class ApiReplica {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** @param settings over those of the platform */
  static async start(dataDir: string, settings: NodeJS.ProcessEnv = {}): Promise<ApiReplica> {
    const { NODE_OPTIONS: _, ...env } = runningPlatformEnv(dataDir, process.env);
    const child = spawn(process.execPath, ['api/server.ts'], {
      cwd: root,
      env: { ...env, PLATFORM_API_PORT: '0', ...settings },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    for await (const chunk of child.stdout!) {
      output += chunk;
      const address = /"address":"([^"]+)"/.exec(output)?.[1];
      if (!address) continue;
      return new ApiReplica(address, child);
    }
    throw new Error(`the API's replica did not get ready:\n${output}`);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }
}
