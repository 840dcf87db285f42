import { spawn } from 'node:child_process';
import os from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { ApiClient } from '../api-client.ts';
import { readConnection } from '../connection-options.ts';
import { Platform } from '../platform.ts';
import { type CliCommand, print, printJson, UsageError } from './command.ts';
import { profilesFile, readProfiles, writeProfiles } from './profiles.ts';

const defaultUrl = 'http://127.0.0.1:7080';

export const login: CliCommand = {
  name: 'login',
  maxWords: 0,
  usage: '[--profile NAME] [--browser | --email ADDRESS] [--key-stdin]',
  summary:
    'keep an API key of a platform for later commands. It asks for the key; with --browser it opens the console, where ' +
    'you make one, and with --email it asks for the password, and makes one',
  options: { browser: { type: 'boolean' }, email: { type: 'string' }, 'key-stdin': { type: 'boolean' } },
  async run({ options, connection, json }) {
    const profiles = readProfiles();
    const name = String(options.profile ?? 'default');
    const apiUrl = connection.apiUrl ?? profiles.profiles[name]?.url ?? process.env.PLATFORM_URL ?? defaultUrl;
    const place = { ...connection, apiUrl };
    if (options.browser) openInBrowser(`${apiUrl.replace(/\/+$/, '')}/account/sign-in`);
    const secret = options.email === undefined ? await askKey(apiUrl, options) : await signIn(place, options);
    const apiKey = secret.startsWith('eyJ') ? await makeKey(place, secret) : secret;
    // A wrong key is refused here, and not by the next command.
    await new Platform({ ...place, apiKey }).usage.quota();
    const gateway = connection.gatewayUrl;
    profiles.profiles[name] = { url: apiUrl, ...(gateway && { gateway }), api_key: apiKey };
    profiles.current = name;
    writeProfiles(profiles);
    if (json) printJson({ profile: name, url: apiUrl, file: profilesFile() });
    else print(`Signed in to ${apiUrl} as profile ${name}. The key is in ${profilesFile()}.`);
    return 0;
  },
};

export const logout: CliCommand = {
  name: 'logout',
  maxWords: 0,
  usage: '[--profile NAME]',
  summary: 'forget the API key of a profile. The key itself stays valid: sandbox-platform keys rm',
  async run({ options, json }) {
    const profiles = readProfiles();
    const name = String(options.profile ?? profiles.current);
    if (!profiles.profiles[name]) throw new UsageError(`There is no profile ${name}`);
    delete profiles.profiles[name];
    profiles.current = Object.keys(profiles.profiles)[0] ?? 'default';
    writeProfiles(profiles);
    if (json) printJson({ profile: name });
    else print(`Profile ${name} is forgotten`);
    return 0;
  },
};

/** An API key, or the access token of a sign-in, which is a JWT. */
async function askKey(url: string, options: Record<string, unknown>): Promise<string> {
  const question = options.browser ? 'Sign in there, make an API key, and paste it: ' : `API key for ${url}: `;
  const key = (options['key-stdin'] ? await text(process.stdin) : await askSecret(question)).trim();
  if (key === '') throw new UsageError('The key is empty');
  // The sign-in page of earlier releases shows an access token.
  if (options.browser && !/^(spk_|e2b_|eyJ)/.test(key)) throw new UsageError('That is no API key');
  return key;
}

/** Signs in with a password. Returns an access token. */
async function signIn(place: { apiUrl: string }, options: Record<string, unknown>): Promise<string> {
  const password = options['key-stdin'] ? await text(process.stdin) : await askSecret('Password: ');
  const api = new ApiClient(readConnection({ ...place, apiKey: 'none' }));
  const body = { email: String(options.email), password: password.replace(/\r?\n$/, '') };
  return (await api.call('signIn', { body })).access_token;
}

/** Makes an API key for this machine. */
async function makeKey(place: { apiUrl: string }, accessToken: string): Promise<string> {
  const own = new Platform({ ...place, apiKey: accessToken });
  const stamp = new Date().toISOString().slice(0, 19);
  const { api_key } = await own.apiKeys.create(`command line on ${os.hostname()} ${stamp}`);
  return api_key!;
}

function openInBrowser(url: string): void {
  process.stderr.write(`${url}\n`);
  const [program = 'xdg-open', ...args] = { darwin: ['open'], win32: ['explorer'] }[process.platform as string] ?? [];
  // Without a browser on this machine, the user opens the printed address on another one.
  spawn(program, [...args, url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}

/** Asks on the terminal without showing the answer. */
async function askSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY) throw new UsageError('Without a terminal, give the key or the password with --key-stdin');
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  // The terminal shows nothing of the input from here on.
  process.stderr.write(question);
  const stop = new AbortController();
  lines.once('SIGINT', () => stop.abort());
  try {
    return await lines.question('', { signal: stop.signal });
  } catch {
    process.exit(130);
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}
