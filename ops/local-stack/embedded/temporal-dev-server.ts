import fs from 'node:fs';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { ensureNamespace } from '../../../platform/temporal/namespace.ts';
import { ChildProgram, type ProgramHome } from './child-program.ts';
import { type DynamicValue, dynamicConfigFile, type EmbeddedTemporal } from './temporal-server.ts';

/** The file of its workflows in its folder. */
export const devServerData = (dir: string): string => path.join(dir, 'temporal.sqlite');

/**
 * The development server of Temporal's CLI, which can be downloaded: on SQLite, with the Web UI in the same process. The
 * UI gets no codec endpoint, because the only way to set it is the command line, which every user of the machine can
 * read. A committed workflow survives a power cut, because each commit is written to the disk (`synchronous=full`).
 * @throws {ProgramError} when it does not become ready
 */
export async function startTemporalDevServer(options: {
  cli: string;
  dir: string;
  home: ProgramHome;
  port: number;
  uiPort: number;
  namespace: string;
}): Promise<EmbeddedTemporal & { uiUrl: string }> {
  fs.mkdirSync(options.dir, { recursive: true, mode: 0o700 });
  const flags: Record<string, string> = {
    ip: '127.0.0.1',
    port: `${options.port}`,
    'ui-port': `${options.uiPort}`,
    'db-filename': devServerData(options.dir),
    'log-level': 'warn',
  };
  const dynamicConfig: Record<string, DynamicValue[]> = JSON.parse(fs.readFileSync(dynamicConfigFile, 'utf8'));
  // A flag has no constraints, so values for some task queues are left out.
  const values = Object.entries(dynamicConfig).filter(([, [value]]) => !value?.constraints);
  const program = await ChildProgram.start({
    name: 'temporal-dev-server',
    command: options.cli,
    args: [
      ...['server', 'start-dev', '--sqlite-pragma', 'journal_mode=wal', '--sqlite-pragma', 'synchronous=full'],
      ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
      ...values.flatMap(([key, [first]]) => ['--dynamic-config-value', `${key}=${JSON.stringify(first!.value)}`]),
    ],
    home: options.home,
    stopTimeoutMs: 15_000,
  });
  const address = `127.0.0.1:${options.port}`;
  // `whenReady` repeats requests. A repetition by the client would come after the connection is closed, and end this process.
  const settings = { address, connectTimeout: 1000, interceptors: [] };
  const connection = await program.whenReady(() => Connection.connect(settings));
  try {
    await program.whenReady(() => ensureNamespace(connection, options.namespace));
  } finally {
    await connection.close();
  }
  return {
    pid: program.pid,
    ended: program.ended,
    address,
    uiUrl: `http://127.0.0.1:${options.uiPort}`,
    stop: () => program.stop(),
  };
}
