import { randomUUID } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { auditedRequest } from '../../../db/accounts/audit-events.ts';
import { AppError } from '../../../domain/errors.ts';
import { DamagedFileError } from '../../../platform/config/readable-document.ts';
import { SettingsError } from '../../../platform/config/settings.ts';
import { NotRunningError, runningPlatformEnv } from '../../local-stack/supervisor/running-platform.ts';
import { restoreCommands } from './backup-commands.ts';
import { commands } from './commands.ts';
import { openPlatformDatabase } from './database.ts';
import { type OperatorCommand, OperatorError, type Values } from './operator-command.ts';
import { templateImageCommands } from './template-image-commands.ts';

export interface AdminResult {
  /** The exit status: 0, 1 for a command that failed, 2 for an unknown one. */
  status: number;
  /** JSON, or help. */
  stdout?: string;
  stderr?: string;
}

const offlineCommands = { ...restoreCommands, ...templateImageCommands };
/** What their messages say is enough for an operator; others are printed with their name. */
const plainErrors = [OperatorError, AppError, SettingsError, NotRunningError, DamagedFileError, TypeError];

/**
 * Runs one command of `npm run admin`.
 * @param env the settings of the platform, unless it runs on the data folder that the environment names. Commands that
 * need no platform read those of this process
 */
export async function runAdmin([name = 'help', ...args]: string[], env: NodeJS.ProcessEnv): Promise<AdminResult> {
  const command = commands[name];
  const offline = offlineCommands[name];
  const described = command ?? offline;
  if (!described) {
    const all = Object.entries({ ...commands, ...offlineCommands });
    const lines = all.map(([each, { usage, does }]) => `  ${`${each} ${usage}`.padEnd(58)} ${does}`);
    const help = `Usage: npm run admin -- <command>\n\n${lines.join('\n')}\n`;
    if (['help', '--help', '-h'].includes(name)) return { status: 0, stdout: help };
    return { status: 2, stderr: `${help}\nThere is no command ${name}\n` };
  }
  const usage = `Usage: npm run admin -- ${name} ${described.usage}\n`;
  if (args.includes('--help') || args.includes('-h')) return { status: 0, stdout: `${usage}${described.does}\n` };
  try {
    const { values } = parseArgs({ args, options: described.options, strict: true });
    const result = command ? await runOnPlatform(name, command, values, env) : await offline!.run(values);
    return { status: 0, stdout: `${JSON.stringify(result, null, 2)}\n` };
  } catch (error) {
    const isPlain = error instanceof Error && plainErrors.some((kind) => error instanceof kind);
    const help = error instanceof NotRunningError ? '' : usage;
    return { status: 1, stderr: isPlain ? `${error.message}\n${help}` : `${error}\n` };
  }
}

/** Uses the settings of the platform that runs on the data folder, or those of the environment. */
async function runOnPlatform(
  name: string,
  command: OperatorCommand,
  values: Values,
  env: NodeJS.ProcessEnv,
): Promise<unknown> {
  const dataDir = path.resolve(env.PLATFORM_DATA_DIR || '.data');
  const database = await openPlatformDatabase(runningPlatformEnv(dataDir, env));
  try {
    return await auditedRequest.run(operator(name), () => command.run(database, values));
  } finally {
    await database.orm.close();
  }
}

/** The user who runs the command, for the audit log. */
function operator(action: string) {
  const noUser = { accountId: null, userId: null, keyId: null, sessionId: null };
  const address = `${userName()}@${os.hostname()}`;
  return { ...noUser, address, requestId: randomUUID(), action, isRecorded: false };
}

function userName(): string {
  try {
    return os.userInfo().username;
  } catch (error) {
    // A container may run as a number without a user in its image.
    if ((error as { info?: { code?: string } }).info?.code !== 'ENOENT') throw error;
    return `uid-${process.getuid!()}`;
  }
}
