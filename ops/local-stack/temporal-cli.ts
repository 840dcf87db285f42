import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { codecAccessToken } from '../../temporal/codec-access.ts';
import { temporalDevServer, temporalPrograms } from '../setup/toolchain/locations.mjs';
import { NotRunningError, runningPlatformEnv } from './supervisor/running-platform.ts';

/**
 * `npm run temporal -- …`: Temporal's CLI with address, namespace and codec endpoint of the running platform. They go by
 * the environment: the codec endpoint carries a token, and everybody can read a command line.
 */
function commandLine(): { program: string; env: NodeJS.ProcessEnv } {
  const settings = runningPlatformEnv(path.resolve(process.env.PLATFORM_DATA_DIR || '.data'), process.env);
  const program = [temporalPrograms().cli, temporalDevServer().cli].find((file) => fs.existsSync(file));
  if (!program) throw new NotRunningError('The Temporal CLI is not there: npm start makes it.');
  const { PLATFORM_URL, PLATFORM_SECRET_KEY, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS } = settings;
  const canDecode = PLATFORM_URL && PLATFORM_SECRET_KEY;
  return {
    program,
    env: {
      ...process.env,
      TEMPORAL_ADDRESS: TEMPORAL_ADDRESS || '127.0.0.1:7233',
      TEMPORAL_NAMESPACE: TEMPORAL_NAMESPACE || 'default',
      ...(TEMPORAL_TLS && { TEMPORAL_TLS }),
      ...(canDecode && { TEMPORAL_CODEC_ENDPOINT: `${PLATFORM_URL}/codec/${codecAccessToken(PLATFORM_SECRET_KEY)}` }),
    },
  };
}

try {
  const { program, env } = commandLine();
  const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  child.once('exit', (code, signal) => {
    process.exitCode = signal ? 128 + os.constants.signals[signal] : (code ?? 1);
  });
} catch (error) {
  if (!(error instanceof NotRunningError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
