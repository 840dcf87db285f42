import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { Client } from 'pg';
import { ensureNamespace } from '../../../platform/temporal/namespace.ts';
import { ChildProgram, type ProgramEnd, type ProgramHome } from './child-program.ts';

const run = promisify(execFile);

/** Ports of Temporal's four services in one process. Only the frontend's gRPC port is for clients. */
export interface TemporalPorts {
  frontend: number;
  frontendHttp: number;
  frontendMembership: number;
  history: number;
  historyMembership: number;
  matching: number;
  matchingMembership: number;
  worker: number;
  workerMembership: number;
}

/** A value of Temporal's dynamic configuration, for everything, or for one namespace or task queue. */
export interface DynamicValue {
  value: unknown;
  constraints?: { namespace?: string; taskQueueName?: string };
}

export interface TemporalServerOptions {
  programs: { server: string; sqlTool: string };
  /** The folder of its configuration. Its data is in Postgres. */
  dir: string;
  home: ProgramHome;
  ports: TemporalPorts;
  /** Postgres URLs of its two databases. Each is owned by the role in its URL. */
  databaseUrl: string;
  visibilityDatabaseUrl: string;
  /** The namespace, which is made if it is missing. */
  namespace: string;
  /** Dynamic configuration in addition to that of `temporal-dynamic-config.json`. Its values come first. */
  dynamicConfig?: Record<string, DynamicValue[]>;
}

export interface EmbeddedTemporal {
  pid: number;
  ended: Promise<ProgramEnd>;
  /** `127.0.0.1:<port>`, gRPC. */
  address: string;
  stop(): Promise<void>;
}

/** For one machine, where each more costs memory and queries. It cannot be changed for an existing cluster. */
const historyShards = 4;

/**
 * Settings that make the server fast on one machine. A task queue with one partition never waits until a task is
 * forwarded from another partition. An activity whose worker also polls the workflow's queue starts without a round
 * trip. Waiting tasks of accounts take turns in the queues of control workers, except in the queue `control`: it has
 * tasks from before, and a switch to turns would lose them.
 */
export const dynamicConfigFile = path.join(import.meta.dirname, 'temporal-dynamic-config.json');

/**
 * The value from when the namespace is usable. Until then all four services read the namespaces twice a second, so that
 * a first start is fast. That would be a quarter of the work of an idle server.
 */
const idleDynamicConfig = { 'system.namespaceCacheRefreshInterval': [{ value: '10s' }] };

/**
 * Starts Temporal on Postgres, bound to loopback: first the schema, then the server, then its namespace.
 * @throws {ProgramError} with the end of its log when it does not become ready
 */
export async function startTemporalServer(options: TemporalServerOptions): Promise<EmbeddedTemporal> {
  await Promise.all([
    bringSchemaUpToDate(options.programs.sqlTool, options.databaseUrl, 'postgresql/v12/temporal'),
    bringSchemaUpToDate(options.programs.sqlTool, options.visibilityDatabaseUrl, 'postgresql/v12/visibility'),
  ]);
  await forgetFormerMembers(options.databaseUrl);
  fs.mkdirSync(options.dir, { recursive: true, mode: 0o700 });
  writeDynamicConfig(options);
  // JSON is a subset of YAML.
  fs.writeFileSync(path.join(options.dir, 'embedded.yaml'), JSON.stringify(serverConfig(options), null, 2), {
    mode: 0o600,
  });

  const program = await ChildProgram.start({
    name: 'temporal-server',
    command: options.programs.server,
    args: ['--root', '/', '--config', options.dir, '--env', 'embedded', '--allow-no-auth', 'start'],
    home: options.home,
    stopTimeoutMs: 15_000,
  });
  const address = `127.0.0.1:${options.ports.frontend}`;
  // `whenReady` repeats requests. A repetition by the client would come after the connection is closed, and end this process.
  const settings = { address, connectTimeout: 1000, interceptors: [] };
  const connection = await program.whenReady(() => Connection.connect(settings));
  try {
    await program.whenReady(() => ensureNamespace(connection, options.namespace));
  } finally {
    await connection.close();
  }
  writeDynamicConfig(options, idleDynamicConfig);
  return { pid: program.pid, ended: program.ended, address, stop: () => program.stop() };
}

async function bringSchemaUpToDate(sqlTool: string, databaseUrl: string, schemaName: string): Promise<void> {
  const database = new URL(databaseUrl);
  const env = {
    PATH: process.env.PATH,
    SQL_PLUGIN: 'postgres12_pgx',
    SQL_HOST: database.hostname,
    SQL_PORT: database.port,
    SQL_USER: database.username,
    SQL_PASSWORD: decodeURIComponent(database.password),
    SQL_DATABASE: database.pathname.slice(1),
  };
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const found = await client.query(`select to_regclass('schema_version') is not null as "isThere"`);
    if (!found.rows[0].isThere) await run(sqlTool, ['setup-schema', '--version', '0.0'], { env });
  } finally {
    await client.end();
  }
  await run(sqlTool, ['update-schema', '--schema-name', schemaName], { env });
}

/**
 * The server tries to join all members of the last 20 s. Here that was its own earlier process, possibly on other
 * ports.
 */
async function forgetFormerMembers(databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query('delete from cluster_membership');
  } finally {
    await client.end();
  }
}

function serverConfig(options: TemporalServerOptions): object {
  const { ports } = options;
  const rpc = (grpcPort: number, membershipPort: number) => ({
    rpc: { grpcPort, membershipPort, bindOnLocalHost: true },
  });
  return {
    log: { stdout: true, level: 'warn' },
    persistence: {
      defaultStore: 'default',
      visibilityStore: 'visibility',
      numHistoryShards: historyShards,
      datastores: {
        default: { sql: sqlStore(options.databaseUrl, 40) },
        visibility: { sql: sqlStore(options.visibilityDatabaseUrl, 10) },
      },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: {
      frontend: { rpc: { ...rpc(ports.frontend, ports.frontendMembership).rpc, httpPort: ports.frontendHttp } },
      history: rpc(ports.history, ports.historyMembership),
      matching: rpc(ports.matching, ports.matchingMembership),
      worker: rpc(ports.worker, ports.workerMembership),
    },
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `127.0.0.1:${ports.frontend}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    dynamicConfigClient: { filepath: ownDynamicConfigFile(options), pollInterval: '60s' },
  };
}

/** The file that the server reads, now and every minute. */
const ownDynamicConfigFile = ({ dir }: TemporalServerOptions) => path.join(dir, 'dynamic-config.json');

function writeDynamicConfig(options: TemporalServerOptions, more: Record<string, DynamicValue[]> = {}): void {
  const values = { ...JSON.parse(fs.readFileSync(dynamicConfigFile, 'utf8')), ...more, ...options.dynamicConfig };
  const file = ownDynamicConfigFile(options);
  // The server never reads a part of it.
  fs.writeFileSync(`${file}.new`, JSON.stringify(values, null, 2), { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
}

function sqlStore(databaseUrl: string, connections: number): object {
  const database = new URL(databaseUrl);
  return {
    pluginName: 'postgres12_pgx',
    databaseName: database.pathname.slice(1),
    connectAddr: database.host,
    connectProtocol: 'tcp',
    user: database.username,
    password: decodeURIComponent(database.password),
    maxConns: connections,
    maxIdleConns: connections,
    maxConnLifetime: '1h',
  };
}
