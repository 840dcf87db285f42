#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { type ParseArgsOptionsConfig, parseArgs, parseEnv } from 'node:util';
import type { ConnectionOptions } from '../connection-options.ts';
import { type CliCommand, describeError, UsageError } from './command.ts';
import { completion } from './completion.ts';
import { copy } from './copy.ts';
import { create } from './create.ts';
import { exec } from './exec.ts';
import { info, metrics, timeout } from './info.ts';
import { keys } from './keys.ts';
import { kill, pause, restart, resume } from './life.ts';
import { list } from './list.ts';
import { login, logout } from './login.ts';
import { logs } from './logs.ts';
import { open } from './open.ts';
import { ports } from './ports.ts';
import { readProfiles } from './profiles.ts';
import { shell } from './shell.ts';
import { sync } from './sync.ts';
import { template } from './template.ts';
import { usage } from './usage.ts';
import { webhooks } from './webhooks.ts';

const commands: CliCommand[] = [
  ...[create, list, info, exec, shell, open, copy, sync, logs, ports, metrics, timeout, pause, resume, restart, kill],
  ...[template, keys, usage, webhooks, login, logout],
  completion(() => commands),
];

const common: ParseArgsOptionsConfig = {
  url: { type: 'string' },
  gateway: { type: 'string' },
  'env-file': { type: 'string' },
  profile: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
};

const help = `sandbox-platform COMMAND [--json] [--profile NAME] [--url URL] [--gateway URL] [--env-file FILE]

${commands.map(({ name, usage, summary }) => `  ${`${name} ${usage}`}\n      ${summary}`).join('\n')}

The URL and the API key come from --env-file (.data/platform.env), from PLATFORM_URL and PLATFORM_API_KEY, or from the command login.
Exit status: that of the command that ran, 1 after an error, 2 for wrong arguments. --version prints the version.`;

async function main(args: string[]): Promise<number> {
  const [name = '--help'] = args;
  if (['--help', '-h', 'help'].includes(name)) {
    process.stdout.write(`${help}\n`);
    return 0;
  }
  if (['--version', '-V', 'version'].includes(name)) {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    process.stdout.write(`${version}\n`);
    return 0;
  }
  const command = commands.find((each) => each.name === name);
  if (!command) throw new UsageError(`There is no command ${name}; sandbox-platform --help`);
  const end = args.indexOf('--');
  const before = end < 0 ? args.slice(1) : args.slice(1, end);
  const { values, positionals } = parseWords(command, before);
  if (values.help) {
    process.stdout.write(`sandbox-platform ${command.name} ${command.usage}\n${command.summary}\n`);
    return 0;
  }
  const extra = positionals[command.maxWords];
  if (extra !== undefined) throw wrongWords(command, `${command.name} takes no word ${extra} here`);
  const json = values.json === true;
  try {
    return await command.run({
      words: positionals,
      rest: end < 0 ? [] : args.slice(end + 1),
      options: values,
      connection: readConnection(values),
      json,
    });
  } catch (error) {
    if (error instanceof UsageError) throw wrongWords(command, error.message);
    process.stderr.write(`${describeError(error, json, positionals)}\n`);
    return 1;
  }
}

function parseWords(command: CliCommand, args: string[]) {
  try {
    return parseArgs({ args, options: { ...common, ...command.options }, allowPositionals: true });
  } catch (error) {
    throw wrongWords(command, (error as Error).message);
  }
}

function wrongWords(command: CliCommand, message: string): UsageError {
  return new UsageError(`${message}\nUsage: sandbox-platform ${command.name} ${command.usage}`);
}

function readConnection(values: Record<string, unknown>): ConnectionOptions {
  const file = values['env-file'];
  const env = typeof file === 'string' ? parseEnv(readFileSync(file, 'utf8')) : process.env;
  const found = { url: values.url ?? env.PLATFORM_URL, key: env.PLATFORM_API_KEY, gateway: values.gateway };
  if (typeof file === 'string') found.gateway ??= env.PLATFORM_GATEWAY;
  if (values.profile !== undefined || found.key === undefined) {
    const { current, profiles } = readProfiles();
    const profile = profiles[String(values.profile ?? current)];
    const url = values.profile === undefined ? found.url : values.url;
    // A key goes only to the platform that it is for.
    if (profile && (url === undefined || url === profile.url)) {
      Object.assign(found, { url: profile.url, key: profile.api_key, gateway: found.gateway ?? profile.gateway });
    } else if (values.profile !== undefined) Object.assign(found, { url, key: undefined });
  }
  return {
    ...(found.url !== undefined && { apiUrl: String(found.url) }),
    ...(found.key !== undefined && { apiKey: found.key }),
    ...(found.gateway !== undefined && { gatewayUrl: String(found.gateway) }),
  };
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${describeError(error, false)}\n`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
