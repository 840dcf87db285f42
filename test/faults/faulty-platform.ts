import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { pino } from 'pino';
import { createOrm, type Orm } from '../../db/orm.ts';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import { PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import type { ProgramEnd } from '../../ops/local-stack/embedded/child-program.ts';
import { settleAddresses } from '../../ops/local-stack/supervisor/addresses.ts';
import { type DataFolder, openDataFolder } from '../../ops/local-stack/supervisor/data-folder.ts';
import { embeddedParts } from '../../ops/local-stack/supervisor/embedded-parts.ts';
import { migrate } from '../../ops/local-stack/supervisor/migrate.ts';
import { startPlatformProcess } from '../../ops/local-stack/supervisor/platform-process.ts';
import { deriveSecrets, type PlatformSecrets } from '../../platform/config/secrets.ts';
import { loadSettings, type Settings } from '../../platform/config/settings.ts';
import { createTemporalClient } from '../../platform/temporal/client.ts';
import { createOciDriver } from '../../runtime/oci/create-driver.ts';
import { leaveMachine } from '../runtime/inventory.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';

const scripts = {
  api: 'api/server.ts',
  gateway: 'gateway/server.ts',
  worker: 'worker/control.ts',
  host: 'worker/host.ts',
} as const;

/** The parts that can be killed. */
export const partNames = ['api', 'gateway', 'worker', 'host', 'temporal', 'postgres'] as const;
export type PartName = (typeof partNames)[number];

export interface RunningPart {
  readonly pid: number;
  readonly ended: Promise<ProgramEnd>;
  stop(): Promise<void>;
}

/**
 * The whole platform as separate processes, each of which can be killed and started at any time. Any other process that
 * ends is restarted at once, as a supervisor would do.
 */
export class FaultyPlatform {
  readonly dataDir: string;
  settings!: Settings;
  secrets!: PlatformSecrets;
  temporal!: Client;
  orm!: Orm;
  api!: PlatformClient;
  apiKey!: string;
  /** The environment of every process of the platform. */
  env!: NodeJS.ProcessEnv;
  /** Processes that ended without a request. */
  readonly ends: string[] = [];
  readonly #parts = new Map<string, RunningPart>();
  readonly #starts = new Map<string, () => Promise<RunningPart>>();
  readonly #wantedDown = new Set<string>();
  #folder!: DataFolder;
  #stopping = false;

  private constructor(dataDir: string, apiKey: string | undefined) {
    this.dataDir = dataDir;
    if (apiKey) this.apiKey = apiKey;
  }

  /**
   * @param given settings over the defaults
   * @param kept the data folder to start on, and the key that an earlier start on it made
   */
  static async start(
    given: NodeJS.ProcessEnv = {},
    kept: { dataDir?: string; apiKey?: string } = {},
  ): Promise<FaultyPlatform> {
    const dataDir = kept.dataDir ?? fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-faults-'));
    const platform = new FaultyPlatform(dataDir, kept.apiKey);
    try {
      await platform.#start(given);
    } catch (error) {
      await platform.stop();
      throw error;
    }
    return platform;
  }

  async #start(given: NodeJS.ProcessEnv): Promise<void> {
    this.#folder = await openDataFolder(this.dataDir);
    const environment: NodeJS.ProcessEnv = {
      ...process.env,
      NODE_OPTIONS: '',
      PLATFORM_PORTS_FROM: String(22_000 + (process.pid % 100) * 20),
      PLATFORM_REGISTRY: '127.0.0.1:1',
      PLATFORM_WARM_POOL_SIZE: '0',
      PLATFORM_RATE_LIMIT_PER_KEY: '0',
      PLATFORM_LOG_LEVEL: 'info',
      ...given,
    };
    const addresses = await settleAddresses(this.#folder, environment);
    this.env = addresses.processEnv;
    this.settings = loadSettings(this.env);
    this.secrets = deriveSecrets(this.settings);
    const home = { logDir: this.#folder.logDir, record: this.#folder.record };
    const embedded = embeddedParts(this.#folder, home, addresses, environment, this.settings);
    this.#starts.set('postgres', embedded.postgres as () => Promise<RunningPart>);
    this.#starts.set('temporal', embedded.temporal as () => Promise<RunningPart>);
    for (const [name, script] of Object.entries(scripts)) this.addProcess(name, script);

    await this.up('postgres');
    const apiKey = await migrate('db/migrate.ts', addresses.migrationEnv, new AbortController().signal);
    await this.up('temporal');
    await Promise.all(Object.keys(scripts).map((name) => this.up(name)));
    this.orm = await createOrm(this.settings.DATABASE_URL, 4);
    this.temporal = createTemporalClient(this.settings, this.secrets);
    this.apiKey ??= apiKey!;
    this.api = new PlatformClient(this.settings.PLATFORM_URL!, this.apiKey);
    await this.untilReady();
  }

  /** Adds a process of the platform. `up` starts it. */
  addProcess(name: string, script: string, env: NodeJS.ProcessEnv = {}): void {
    this.addPart(
      name,
      () =>
        startPlatformProcess({
          name,
          script,
          env: { ...this.env, ...env },
          home: { logDir: this.#folder.logDir, record: this.#folder.record },
          onWarning: () => {},
        }) as Promise<RunningPart>,
    );
  }

  /** Adds any other part that can be started and killed by name. */
  addPart(name: string, start: () => Promise<RunningPart>): void {
    this.#starts.set(name, start);
  }

  get logDir(): string {
    return this.#folder.logDir;
  }

  pid(name: string): number {
    return this.#parts.get(name)!.pid;
  }

  /** `kill -9`. It is not restarted before `up`. */
  async kill(name: string): Promise<void> {
    this.#wantedDown.add(name);
    const part = this.#parts.get(name)!;
    process.kill(part.pid, 'SIGKILL');
    await part.ended;
  }

  /** Stops it gracefully, if it was ever up. */
  async down(name: string): Promise<void> {
    this.#wantedDown.add(name);
    await this.#parts.get(name)?.stop();
  }

  /** Starts it and waits until it is ready. */
  async up(name: string): Promise<void> {
    this.#wantedDown.delete(name);
    const deadline = Date.now() + 60_000;
    for (;;) {
      try {
        const part = await this.#starts.get(name)!();
        this.#parts.set(name, part);
        void part.ended.then(() => this.#ended(name));
        return;
      } catch (error) {
        // Parts that it needs may be down, too, and a killed Postgres may not have released everything yet.
        if (this.#stopping || Date.now() > deadline) throw error;
        await delay(300);
      }
    }
  }

  async #ended(name: string): Promise<void> {
    if (this.#stopping || this.#wantedDown.has(name)) return;
    this.ends.push(name);
    await this.up(name).catch((error) => this.ends.push(`${name} does not start again: ${error}`));
  }

  /** Waits until API, Postgres and Temporal answer, and the host accepts sandboxes. */
  async untilReady(): Promise<void> {
    const answers = async () => {
      try {
        if ((await this.api.request('GET', '/readyz')).status !== 200) return false;
        const [row] = (await this.orm.em.execute(
          // Without recent figures, it gets no sandboxes.
          `select count(*) as live from hosts
            where lease_expires_at > now() and measured_at > now() - interval '10 seconds'`,
        )) as {
          live: string;
        }[];
        return Number(row!.live) > 0;
      } catch {
        return false;
      }
    };
    await until(answers, 60_000);
  }

  agent(sandbox: SandboxView): AgentClient {
    return new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
  }

  /** Rows of a read-only query. */
  async rows<Row>(query: string, parameters: unknown[] = []): Promise<Row[]> {
    return (await this.orm.em.fork().execute(query, parameters)) as Row[];
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.orm?.close();
    await this.temporal?.connection.close();
    const order = [...this.#parts.keys()].filter((name) => name !== 'postgres' && name !== 'temporal');
    await Promise.all(order.map((name) => this.#parts.get(name)?.stop()));
    await this.#parts.get('temporal')?.stop();
    await this.#parts.get('postgres')?.stop();
    await this.#folder?.release();
  }

  /** Removes everything of the stopped platform from the machine, including sandboxes of failed tests. */
  async removeData(options: { keepFolder?: boolean } = {}): Promise<void> {
    await removeHost(this.dataDir, options);
  }
}

/** Ends the sandboxes of a host whose worker has stopped, and removes its data folder. */
export async function removeHost(dataDir: string, { keepFolder = false } = {}): Promise<void> {
  if (fs.existsSync(path.join(dataDir, 'oci'))) {
    const driver = await createOciDriver({
      dataDir,
      cacheDir: cacheDir(),
      agentDir: path.resolve(import.meta.dirname, '../../agent/dist'),
      warmPoolSize: 0,
      logger: pino({ level: 'silent' }),
    });
    await leaveMachine(driver);
  }
  if (!keepFolder) fs.rmSync(dataDir, { recursive: true, force: true });
}
