import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import { PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import { type PlatformEnv, readPlatformEnv } from '../../ops/local-stack/supervisor/platform-env.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { findProcesses } from './find-processes.ts';
import { runOperator } from './operator.ts';
import { sharedPlatformFolder, testDatabase, testNamespace } from './stack.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** The platform, started as `npm start` does, with its own data folder. Tests use it from outside. */
export class RunningPlatform {
  readonly dataDir: string;
  readonly #settings: NodeJS.ProcessEnv;
  readonly #root: string;
  #child: ChildProcess | null = null;
  /** The key of the account that `env` names. Null: the first account. */
  #apiKey: string | null = null;
  output = '';

  /**
   * @param settings over the defaults
   * @param ofRoot the folder with its code
   */
  constructor(
    settings: NodeJS.ProcessEnv = {},
    dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-e2e-')),
    ofRoot = root,
  ) {
    this.#root = ofRoot;
    this.dataDir = dataDir;
    // Postgres does not run as root and needs access to its folder.
    fs.chmodSync(this.dataDir, 0o711);
    this.#settings = settings;
  }

  /**
   * The platform that the files of a run share, with a new account. It is stopped and removed at the end of the run, and
   * nothing of a sandbox may be left on the machine then. For files that kill no part of it.
   */
  static async shared(): Promise<RunningPlatform> {
    const platform = new RunningPlatform({}, await sharedPlatformFolder());
    const account = ['--email', `${randomUUID()}@example.com`, '--plan', 'enterprise'];
    const { code, stdout, stderr } = await runOperator('admin', platform.dataDir, ['create-account', ...account]);
    if (code !== 0) throw new Error(stderr);
    platform.#apiKey = JSON.parse(stdout).apiKey;
    return platform;
  }

  /**
   * A platform with a database and a namespace on the run's Postgres and Temporal and without a warm pool, so that it
   * starts in seconds. For files that need settings of their own, or kill the platform's processes.
   * @param settings over the defaults
   */
  static async onSharedServers(settings: NodeJS.ProcessEnv = {}): Promise<RunningPlatform> {
    const [database, { address, namespace }] = await Promise.all([testDatabase(), testNamespace()]);
    return new RunningPlatform({
      ...{ DATABASE_URL: database.url, TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace },
      PLATFORM_WARM_POOL_SIZE: '0',
      ...settings,
    });
  }

  /** Deletes the sandboxes of the account on a shared platform. */
  async leave(): Promise<void> {
    const api = this.client();
    const list = '/v1/sandboxes?limit=100';
    const { data } = (await api.request<{ sandboxes: SandboxView[] }>('GET', list)).body;
    await Promise.all(data.sandboxes.map(({ sandbox_id }) => api.deleteSandbox(sandbox_id)));
  }

  /**
   * @param throughSetUp start as `npm start` does, which first checks the set-up
   * @returns milliseconds until it was ready
   */
  async start(timeoutMs = 120_000, { throughSetUp = false } = {}): Promise<number> {
    const startedMs = Date.now();
    const child = spawn(process.execPath, throughSetUp ? wordsOfNpmStart(this.#root) : ['ops/local-stack/start.ts'], {
      cwd: this.#root,
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        PLATFORM_DATA_DIR: this.dataDir,
        PLATFORM_LOG_LEVEL: 'info',
        ...this.#settings,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.output = '';
    const collect = (chunk: Buffer) => {
      this.output += chunk;
    };
    child.stdout!.on('data', collect);
    child.stderr!.on('data', collect);
    while (!/^Ready in /m.test(this.output)) {
      if (child.exitCode !== null || child.signalCode !== null || Date.now() - startedMs > timeoutMs) {
        throw new Error(`npm start did not get ready:\n${this.output}`);
      }
      await delay(50);
    }
    return Date.now() - startedMs;
  }

  /** As Ctrl-C does. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }

  get env(): PlatformEnv {
    const env = readPlatformEnv(this.dataDir) as PlatformEnv;
    return this.#apiKey ? { ...env, PLATFORM_API_KEY: this.#apiKey } : env;
  }

  /** A client of the API with the key of the first account's root. */
  client(apiKey: string | null = this.env.PLATFORM_API_KEY ?? null): PlatformClient {
    return new PlatformClient(this.env.PLATFORM_URL, apiKey);
  }

  agent(sandbox: SandboxView, token: string | null = sandbox.envd_access_token): AgentClient {
    return new AgentClient(sandbox.sandbox_domain, token);
  }

  /** The pids of one of its processes, which is found by its script and its data folder. */
  findPids(script: string): number[] {
    const readWords = (pid: number, name: string) => fs.readFileSync(`/proc/${pid}/${name}`, 'utf8').split('\0');
    return findProcesses(
      (pid) =>
        readWords(pid, 'cmdline').some((word) => word.endsWith(script)) &&
        readWords(pid, 'environ').includes(`PLATFORM_DATA_DIR=${this.dataDir}`),
    );
  }

  /**
   * What the stopped platform left on this machine: containers, mounts, loop devices, links and folders. Removes them.
   * Empty when nothing leaked.
   */
  hostRemains(): Promise<string[]> {
    return removeHostRemains(this.dataDir);
  }

  removeData(): void {
    fs.rmSync(this.dataDir, { recursive: true, force: true });
  }
}

/** The arguments of `node` in the `start` script of package.json. */
function wordsOfNpmStart(root: string): string[] {
  const { scripts } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
  const [node, ...words] = (scripts.start as string).split(' ');
  if (node !== 'node') throw new Error(`npm start does not run node: ${scripts.start}`);
  return words;
}

/** Like `hostRemains`, for the host worker of a data folder, which must have ended. */
export async function removeHostRemains(dataDir: string): Promise<string[]> {
  const { createOciDriver } = await import('../../runtime/oci/create-driver.ts');
  const { openCopy } = await import('../../runtime/oci/copy.ts');
  const { leaveMachine, takeInventory } = await import('../runtime/inventory.ts');
  const logger = pino({ level: 'silent' });
  const driver = await createOciDriver({
    dataDir,
    cacheDir: loadSettings({ PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'), DATABASE_URL: '-' })
      .PLATFORM_CACHE_DIR,
    agentDir: path.join(root, 'agent/dist'),
    warmPoolSize: 0,
    logger,
  });
  const { folders, firewall: _, ...onMachine } = await takeInventory(await openCopy(dataDir, logger));
  await leaveMachine(driver);
  return Object.entries({ ...onMachine, ...folders }).flatMap(([kind, found]) =>
    found.map((each) => `${kind}: ${each}`),
  );
}
