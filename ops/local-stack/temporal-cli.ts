import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { codecAccessToken } from '../../platform/temporal/codec-access.ts';
import { temporalDevServer, temporalPrograms } from '../setup/toolchain/locations.mjs';
import { type HistoryEvent, readableLines } from './readable-history.ts';
import { NotRunningError, runningPlatformEnv } from './supervisor/running-platform.ts';
import { queriesForPeople } from './workflow-queries.ts';

/**
 * `npm run temporal -- …`: runs Temporal's CLI with the address, namespace, TLS, API key and codec endpoint of the
 * running platform. They are passed in the environment, because every user of the machine can read a command line, and
 * the codec endpoint contains a token. `workflow show` prints one line per event, unless an option selects one of the
 * CLI's own formats. `queries` prints list queries.
 */
function commandLine(settings: NodeJS.ProcessEnv): { program: string; env: NodeJS.ProcessEnv } {
  const program = [temporalPrograms().cli, temporalDevServer().cli].find((file) => fs.existsSync(file));
  if (!program) throw new NotRunningError('The Temporal CLI is not installed: npm start installs it.');
  const { PLATFORM_URL, PLATFORM_SECRET_KEY, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE } = settings;
  const canDecode = PLATFORM_URL && PLATFORM_SECRET_KEY;
  return {
    program,
    env: {
      ...process.env,
      TEMPORAL_ADDRESS: TEMPORAL_ADDRESS || '127.0.0.1:7233',
      TEMPORAL_NAMESPACE: TEMPORAL_NAMESPACE || 'default',
      ...tlsVariables(settings),
      ...(canDecode && { TEMPORAL_CODEC_ENDPOINT: `${PLATFORM_URL}/codec/${codecAccessToken(PLATFORM_SECRET_KEY)}` }),
    },
  };
}

/**
 * The CLI's variables for the settings of TLS and the API key. Empty settings are left out, because the CLI would use
 * them as values.
 */
function tlsVariables(settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const all = {
    TEMPORAL_TLS: settings.TEMPORAL_TLS,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: settings.TEMPORAL_TLS_CA_FILE,
    TEMPORAL_TLS_CLIENT_CERT_PATH: settings.TEMPORAL_TLS_CERT_FILE,
    TEMPORAL_TLS_CLIENT_KEY_PATH: settings.TEMPORAL_TLS_KEY_FILE,
    TEMPORAL_TLS_SERVER_NAME: settings.TEMPORAL_TLS_SERVER_NAME,
    TEMPORAL_API_KEY: settings.TEMPORAL_API_KEY,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

/** Options that select one of the CLI's own formats. */
const ownForms = /^(-o|--output|--detailed|-f|--follow|-h|--help)(=|$)/;

/** @param readable print a history with one line per event */
async function run(args: readonly string[], settings: NodeJS.ProcessEnv, readable: boolean): Promise<number> {
  const { program, env } = commandLine(settings);
  const all = readable ? [...args, '--output', 'json'] : args;
  const child = spawn(program, all, { stdio: ['inherit', readable ? 'pipe' : 'inherit', 'inherit'], env });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(signal ? 128 + os.constants.signals[signal] : (code ?? 1)));
  });
  if (child.stdout) await printReadable(child.stdout);
  return ended;
}

/**
 * Reads all events first, because a line may contain the name of an earlier event. Prints nothing after an error of the
 * CLI.
 */
async function printReadable(output: Readable): Promise<void> {
  const history = await text(output);
  if (history.trim() === '') return;
  const { events } = JSON.parse(history) as { events?: HistoryEvent[] };
  for (const line of readableLines(events ?? [])) process.stdout.write(`${line}\n`);
}

const args = process.argv.slice(2);
try {
  const settings = runningPlatformEnv(path.resolve(process.env.PLATFORM_DATA_DIR || '.data'), process.env);
  if (args[0] === 'queries') {
    const { TEMPORAL_UI_URL: url, TEMPORAL_NAMESPACE: namespace = 'default' } = settings;
    process.stdout.write(queriesForPeople(new Date(), url ? { url, namespace } : null));
  } else {
    const isShow = args[0] === 'workflow' && args[1] === 'show' && !args.some((word) => ownForms.test(word));
    process.exitCode = await run(args, settings, isShow);
  }
} catch (error) {
  if (!(error instanceof NotRunningError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
