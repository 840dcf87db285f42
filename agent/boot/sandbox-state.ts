/** The `init` of the boot document. See BOOT.md. */
export interface SandboxInit {
  sandboxId: string;
  /** The value of `X-Access-Token`. Null: the agent serves every caller. */
  accessToken: string | null;
  env: Record<string, string>;
  /** The template's own command. Null: none. */
  command: { entrypoint: string[]; cmd: string[] } | null;
  cwd?: string;
  user?: string;
  /** Where the host could not give its name to the first process. */
  hostname?: string;
}

/** The state of the sandbox. `init` is undefined until the boot document has arrived. */
export interface SandboxState {
  platformToken: string | null;
  /** Variables under those of `init`. */
  env: Record<string, string>;
  init: SandboxInit | undefined;
}

/**
 * Reads `init` from a JSON document.
 * @throws {TypeError} with the name of the wrong field
 */
export function parseInit(document: unknown): SandboxInit {
  const object = record(document, 'init');
  if (typeof object.sandboxId !== 'string' || object.sandboxId === '')
    throw new TypeError('sandboxId must be a string');
  const accessToken = object.accessToken ?? null;
  if (accessToken !== null && (typeof accessToken !== 'string' || accessToken === '')) {
    throw new TypeError('accessToken must be a string or null');
  }
  let command: SandboxInit['command'] = null;
  if (object.command !== null && object.command !== undefined) {
    const given = record(object.command, 'command');
    command = { entrypoint: words(given.entrypoint, 'entrypoint'), cmd: words(given.cmd, 'cmd') };
    if (command.entrypoint.length + command.cmd.length === 0) command = null;
  }
  return {
    sandboxId: object.sandboxId,
    accessToken,
    env: parseEnv(object.env),
    command,
    cwd: optionalText(object.cwd, 'cwd'),
    user: optionalText(object.user, 'user'),
    hostname: optionalText(object.hostname, 'hostname'),
  };
}

/** Variables; none where there is no value. @throws {TypeError} */
export function parseEnv(value: unknown): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, text] of Object.entries(record(value ?? {}, 'env'))) {
    if (typeof text !== 'string') throw new TypeError('env must hold strings');
    env[name] = text;
  }
  return env;
}

/** The token of the sandbox that comes with its `init`. Undefined: the boot document's stays. @throws {TypeError} */
export function parsePlatformToken(document: unknown): string | undefined {
  return optionalText(record(document, 'init').platformToken, 'platformToken');
}

/** A non-empty list of strings. @throws {TypeError} */
export function parseCommand(value: unknown): string[] {
  const command = words(value, 'command');
  if (command.length === 0) throw new TypeError('command must not be empty');
  return command;
}

function record(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TypeError(`${name} must be an object`);
  return value as Record<string, unknown>;
}

function words(value: unknown, name: string): string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.some((word) => typeof word !== 'string')) {
    throw new TypeError(`${name} must be a list of strings`);
  }
  return value as string[];
}

function optionalText(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new TypeError(`${name} must be a string`);
  return value;
}
