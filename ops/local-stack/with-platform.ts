import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { NotRunningError, runningPlatformEnv } from './supervisor/running-platform.ts';

/** `node ops/local-stack/with-platform.ts SCRIPT ARGS…`: runs a script with the settings of the running platform. */
const [script, ...args] = process.argv.slice(2);
try {
  process.env = runningPlatformEnv(path.resolve(process.env.PLATFORM_DATA_DIR || '.data'), process.env);
} catch (error) {
  if (!(error instanceof NotRunningError)) throw error;
  console.error(error.message);
  process.exit(1);
}
const file = path.resolve(script!);
process.argv = [process.argv[0]!, file, ...args];
await import(pathToFileURL(file).href);
