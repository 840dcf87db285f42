import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { until } from '../support/until.ts';

/** A gateway in its own processes, of which one serves, on a database. */
export class GatewayProcess {
  readonly dataDir = mkdtempSync(path.join(os.tmpdir(), 'gateway-process-'));
  readonly #log: Record<string, unknown>[] = [];
  readonly #child: ChildProcess;

  private constructor(databaseUrl: string, secretKey: string) {
    this.#child = spawn(process.execPath, [path.join(import.meta.dirname, '../../gateway/server.ts')], {
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        DATABASE_URL: databaseUrl,
        PLATFORM_SECRET_KEY: secretKey,
        PLATFORM_DATA_DIR: this.dataDir,
        PLATFORM_GATEWAY_PORT: '0',
        // Two would learn of a change one after the other.
        PLATFORM_GATEWAY_PROCESSES: '1',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface(this.#child.stdout!).on('line', (line) => this.#log.push(JSON.parse(line)));
  }

  static async start(databaseUrl: string, secretKey: string): Promise<GatewayProcess> {
    const gateway = new GatewayProcess(databaseUrl, secretKey);
    await until(() => gateway.#ready !== undefined);
    return gateway;
  }

  get port(): number {
    return this.#ready!.port as number;
  }

  get #ready() {
    return this.#log.find((line) => line.msg === 'ready');
  }

  /** Stops it gracefully. @returns its exit code; null when a signal ended it */
  async stop(): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, 'exit');
      this.#child.kill('SIGTERM');
      await exited;
    }
    return this.#child.exitCode;
  }

  /** Call it after the end. */
  removeData(): void {
    rmSync(this.dataDir, { recursive: true });
  }
}
