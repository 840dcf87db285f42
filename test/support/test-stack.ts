import { randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import type { ProgramHome } from '../../ops/local-stack/embedded/child-program.ts';
import { choosePorts } from '../../ops/local-stack/embedded/ports.ts';
import { type EmbeddedPostgres, startPostgres } from '../../ops/local-stack/embedded/postgres.ts';
import { type EmbeddedRegistry, startRegistry } from '../../ops/local-stack/embedded/registry.ts';
import type { EmbeddedTemporal } from '../../ops/local-stack/embedded/temporal-server.ts';
import { temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { makeProcessFolder } from '../../platform/config/process-folder.ts';
import type { RunningPlatform } from './running-platform.ts';

const folderPrefix = 'sandbox-platform-test-';
const templateDatabase = 'platform_template';
/** In this namespace the server suggests continue-as-new after few events. */
const shortHistoryNamespace = 'test-short-history';

/**
 * The real parts that one test run shares: Postgres, Temporal on it, a registry. It lives in Jest's main process. Test
 * files, which run in Jest's workers, ask it over a Unix socket. A part starts at its first use, so a run without need
 * of Temporal starts none, and does not load its client.
 */
export class TestStack {
  readonly #dir: string;
  readonly #home: ProgramHome;
  readonly #server: http.Server;
  readonly #parts = new Map<string, Promise<unknown>>();
  readonly #stops: (() => Promise<void>)[] = [];
  /** The next port to try. Parts start at the same time, and no port may be assigned twice. */
  #portSearch = 20_000 + (process.pid % 500) * 20;
  /** Databases are cloned one at a time: Postgres refuses to copy a template while another copy of it runs. */
  #cloning: Promise<unknown> = Promise.resolve();

  private constructor(dir: string) {
    this.#dir = dir;
    this.#home = { logDir: path.join(dir, 'logs') };
    this.#server = http.createServer((request, response) => {
      this.#answer(request.url ?? '').then(
        (answer) => response.end(JSON.stringify(answer)),
        (error: Error) => {
          response.statusCode = 500;
          response.end(error.stack);
        },
      );
    });
  }

  /** @param parent the folder of its folder */
  static async listen(parent = os.tmpdir()): Promise<TestStack> {
    const dir = makeProcessFolder(parent, folderPrefix);
    fs.chmodSync(dir, 0o711);
    const stack = new TestStack(dir);
    await new Promise<void>((resolve) => stack.#server.listen(stack.socket, resolve));
    return stack;
  }

  get socket(): string {
    return path.join(this.#dir, 'stack.sock');
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await Promise.allSettled(this.#parts.values());
    const failures: unknown[] = [];
    for (const stopPart of this.#stops.reverse()) await stopPart().catch((error) => failures.push(error));
    fs.rmSync(this.#dir, { recursive: true, force: true });
    if (failures.length > 0)
      throw new AggregateError(failures, `Parts of the test run did not end: ${failures.join('; ')}`);
  }

  #answer(url: string): Promise<unknown> {
    switch (url) {
      case '/temporal':
        return this.#temporal().then(({ address }) => ({ address }));
      case '/namespace':
        return this.#newNamespace(`test-${randomUUID()}`);
      case '/namespace/short-history':
        return this.#newNamespace(shortHistoryNamespace);
      case '/registry':
        return this.#registry().then(({ address }) => ({ address }));
      case '/platform':
        return this.#platform().then(({ dataDir }) => ({ dataDir }));
      case '/database':
        return this.#newDatabase();
      default:
        return Promise.reject(new Error(`nothing at ${url}`));
    }
  }

  /** Starts a part at its first use, and returns the same part later. */
  #part<Part>(name: string, start: () => Promise<Part>): Promise<Part> {
    const started = this.#parts.get(name) ?? start();
    this.#parts.set(name, started);
    return started as Promise<Part>;
  }

  async #ports<Name extends string>(names: readonly Name[]): Promise<Record<Name, number>> {
    const first = this.#portSearch;
    this.#portSearch += names.length * 20;
    return choosePorts(
      this.#dir,
      names.map((name, index) => ({ name, preferred: first + index * 20 })),
    );
  }

  get #postgresDir(): string {
    return path.join(this.#dir, 'postgres');
  }

  #postgres(): Promise<EmbeddedPostgres> {
    return this.#part('postgres', async () => {
      const { postgres: port } = await this.#ports(['postgres']);
      const postgres = await startPostgres({
        dir: this.#postgresDir,
        home: this.#home,
        port,
        password: randomBytes(16).toString('hex'),
        forgetful: true,
      });
      this.#stops.push(() => postgres.stop());
      return postgres;
    });
  }

  #temporal(): Promise<EmbeddedTemporal> {
    return this.#part('temporal', async () => {
      const { startTemporalOnPostgres, temporalInnerPorts } = await import(
        '../../ops/local-stack/embedded/temporal.ts'
      );
      const postgres = await this.#postgres();
      const temporal = await startTemporalOnPostgres({
        postgres,
        password: randomBytes(16).toString('hex'),
        programs: temporalPrograms(),
        dataDir: this.#dir,
        home: this.#home,
        ports: await this.#ports(['frontend', ...temporalInnerPorts]),
        namespace: 'default',
        dynamicConfig: {
          // Tests make namespaces all the time.
          'system.namespaceCacheRefreshInterval': [{ value: '500ms' }],
          'limit.historyCount.suggestContinueAsNew': [
            { value: 100, constraints: { namespace: shortHistoryNamespace } },
            { value: 4096 },
          ],
        },
      });
      this.#stops.push(() => temporal.stop());
      return temporal;
    });
  }

  #registry(): Promise<EmbeddedRegistry> {
    return this.#part('registry', async () => {
      const { registry: port } = await this.#ports(['registry']);
      const registry = await startRegistry({
        dir: path.join(this.#dir, 'registry'),
        home: this.#home,
        port,
      });
      this.#stops.push(() => registry.stop());
      return registry;
    });
  }

  #platform(): Promise<RunningPlatform> {
    return this.#part('platform', async () => {
      const { RunningPlatform } = await import('./running-platform.ts');
      const platform = new RunningPlatform({ PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8' });
      this.#stops.push(async () => {
        await platform.stop();
        const remains = await platform.hostRemains();
        platform.removeData();
        if (remains.length > 0) throw new Error(`The shared platform leaves on this machine: ${remains.join(', ')}`);
      });
      await platform.start();
      return platform;
    });
  }

  async #newNamespace(namespace: string): Promise<{ address: string; namespace: string }> {
    const { Connection } = await import('@temporalio/client');
    const { ensureNamespace } = await import('../../platform/temporal/namespace.ts');
    const { address } = await this.#temporal();
    const connection = await Connection.connect({ address });
    try {
      await ensureNamespace(connection, namespace);
    } finally {
      await connection.close();
    }
    return { address, namespace };
  }

  async #newDatabase(): Promise<{ url: string }> {
    const postgres = await this.#postgres();
    await this.#part('template database', async () => {
      const { createOrm } = await import('../../db/orm.ts');
      const { url } = await this.#createDatabase(postgres, 'template0', templateDatabase);
      const orm = await createOrm(url, 1);
      try {
        await orm.migrator.up();
      } finally {
        await orm.close();
      }
    });
    return this.#createDatabase(postgres, templateDatabase);
  }

  #createDatabase(
    postgres: EmbeddedPostgres,
    template: string,
    name = `test_${randomUUID().replaceAll('-', '')}`,
  ): Promise<{ url: string }> {
    const created = this.#cloning.then(async () => {
      const client = new Client({ connectionString: postgres.url('postgres') });
      await client.connect();
      try {
        await client.query(`create database ${name} template ${template}`);
      } finally {
        await client.end();
      }
      // Through the socket, a statement takes client and server a fifth less processor time than over TCP.
      return { url: `${postgres.url(name)}?host=${this.#postgresDir}` };
    });
    this.#cloning = created.catch(() => undefined);
    return created;
  }
}
