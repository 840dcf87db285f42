import fs from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../platform/config/readable-document.ts';
import { processStartedAt } from '../embedded/process-record.ts';

/**
 * The platform's settings in an environment, except those of a single process: the metrics ports that it listens on.
 */
const settingName = /^(PLATFORM|DATABASE|TEMPORAL)_(?!\w+_METRICS_PORT$)/;

/** A command of the operator needs a running platform, and there is none. */
export class NotRunningError extends Error {
  override name = 'NotRunningError';
}

const settingsFile = (dataDir: string) => path.join(dataDir, 'settings.json');

/** Stores the settings of the processes (mode 600, because of the secrets) for the operator's commands. */
export function writeProcessSettings(dataDir: string, processEnv: NodeJS.ProcessEnv): void {
  const settings = Object.entries(processEnv).filter(([name, value]) => settingName.test(name) && value);
  writeFileDurablySync(settingsFile(dataDir), JSON.stringify(Object.fromEntries(settings), null, 2));
}

/**
 * The settings of the platform that runs on a data folder. The environment takes precedence, so that commands also work
 * for processes that were started one by one.
 * @throws {NotRunningError} when no platform runs there and the environment has no database
 */
export function runningPlatformEnv(dataDir: string, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env.DATABASE_URL) return env;
  const pidFile = path.join(dataDir, 'platform.pid');
  const pid = fs.existsSync(pidFile) && Number.parseInt(fs.readFileSync(pidFile, 'utf8'), 10);
  const settings = readDocumentOrSetAside(settingsFile(dataDir), z.record(z.string(), z.string()));
  if (!pid || !processStartedAt(pid) || !settings) {
    throw new NotRunningError(
      `No platform runs on ${dataDir}. Start it with: npm start (or name its folder in PLATFORM_DATA_DIR)`,
    );
  }
  return { ...settings, ...env };
}
