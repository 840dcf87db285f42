import { randomUUID } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { auditedRequest } from '../../db/accounts/audit-events.ts';
import { AppError } from '../../domain/errors.ts';
import { DamagedFileError } from '../../platform/config/readable-document.ts';
import { SettingsError } from '../../platform/config/settings.ts';
import { NotRunningError, runningPlatformEnv } from '../local-stack/supervisor/running-platform.ts';
import { restoreCommands } from './admin/backup-commands.ts';
import { commands } from './admin/commands.ts';
import { openPlatformDatabase } from './admin/database.ts';
import { OperatorError, type Values } from './admin/operator-command.ts';
import { templateImageCommands } from './admin/template-image-commands.ts';

/** `npm run admin -- <command> …`: actions that only the operator of a platform may take. */
const offlineCommands = { ...restoreCommands, ...templateImageCommands };
const [name = 'help', ...rest] = process.argv.slice(2);
const command = commands[name];
const offline = offlineCommands[name];
if (!command && !offline) {
  const all = Object.entries({ ...commands, ...offlineCommands });
  const lines = all.map(([each, { usage, does }]) => `  ${`${each} ${usage}`.padEnd(58)} ${does}`);
  const isHelp = ['help', '--help', '-h'].includes(name);
  const text = `Usage: npm run admin -- <command>\n\n${lines.join('\n')}\n`;
  if (isHelp) process.stdout.write(text);
  else process.stderr.write(`${text}\nThere is no command ${name}\n`);
  process.exit(isHelp ? 0 : 2);
}
const { usage, does, options } = (command ?? offline)!;
if (rest.includes('--help') || rest.includes('-h')) {
  process.stdout.write(`Usage: npm run admin -- ${name} ${usage}\n${does}\n`);
  process.exit(0);
}
const plainErrors = [OperatorError, AppError, SettingsError, NotRunningError, DamagedFileError, TypeError];
try {
  const result = command ? await runOnPlatform(command.run) : await offline!.run(parseValues(options));
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
} catch (error) {
  const known = error instanceof Error && plainErrors.some((kind) => error instanceof kind);
  const help = error instanceof NotRunningError ? '' : `Usage: npm run admin -- ${name} ${usage}\n`;
  process.stderr.write(known ? `${error.message}\n${help}` : `${error}\n`);
  process.exit(1);
}

function parseValues(known: ParseArgsOptionsConfig): Values {
  return parseArgs({ args: rest, options: known, strict: true }).values;
}

/** Uses the settings of the platform that runs on the data folder, or those of the environment. */
async function runOnPlatform(run: NonNullable<typeof command>['run']): Promise<unknown> {
  const values = parseValues(options);
  process.env = runningPlatformEnv(path.resolve(process.env.PLATFORM_DATA_DIR || '.data'), process.env);
  const database = await openPlatformDatabase();
  try {
    return await auditedRequest.run(operator(name), () => run(database, values));
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
