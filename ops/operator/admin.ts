import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { parseArgs } from 'node:util';
import { SettingsError } from '../../config/settings.ts';
import { auditedRequest } from '../../db/repositories/audit-events.ts';
import { AppError } from '../../domain/errors.ts';
import { commands, OperatorError } from './admin/commands.ts';
import { openPlatformDatabase } from './admin/database.ts';

/** `npm run admin -- <command> …`: actions that only the operator of a platform may take. */
const [name = 'help', ...rest] = process.argv.slice(2);
const command = commands[name];
if (!command) {
  const lines = Object.entries(commands).map(([each, { usage, does }]) => `  ${`${each} ${usage}`.padEnd(58)} ${does}`);
  process.stdout.write(`Usage: npm run admin -- <command>\n\n${lines.join('\n')}\n`);
  process.exit(name === 'help' ? 0 : 2);
}
try {
  const { values } = parseArgs({ args: rest, options: command.options, strict: true });
  const database = await openPlatformDatabase();
  try {
    const result = await auditedRequest.run(operator(name), () => command.run(database, values));
    process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
  } finally {
    await database.orm.close();
  }
} catch (error) {
  const known =
    error instanceof OperatorError ||
    error instanceof AppError ||
    error instanceof SettingsError ||
    error instanceof TypeError;
  process.stderr.write(known ? `${error.message}\nUsage: npm run admin -- ${name} ${command.usage}\n` : `${error}\n`);
  process.exit(1);
}

/** The user who runs the command, for the audit log. */
function operator(action: string) {
  const nobody = { accountId: null, userId: null, keyId: null, sessionId: null };
  const address = `${os.userInfo().username}@${os.hostname()}`;
  return { ...nobody, address, requestId: randomUUID(), action, isRecorded: false };
}
