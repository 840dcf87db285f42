/** The arguments of a template's `custom_command`, in the order of execution. */
export interface SandboxCommand {
  entrypoint: string[];
  cmd: string[];
}

/**
 * Reads a template's `custom_command`: JSON `{"Entrypoint": [], "Cmd": []}` or a plain command line, which a shell
 * runs.
 * @throws {SyntaxError} for JSON of another shape, with what it must have
 */
export function parseCustomCommand(text: string | null): SandboxCommand | null {
  if (!text?.trim()) return null;
  if (!text.trimStart().startsWith('{')) return { entrypoint: ['/bin/sh', '-c'], cmd: [text] };
  const value: unknown = JSON.parse(text);
  const { Entrypoint: entrypoint = [], Cmd: cmd = [] } = value as { Entrypoint?: unknown; Cmd?: unknown };
  if (!isWords(entrypoint ?? []) || !isWords(cmd ?? []))
    throw new SyntaxError('must have lists of texts in Entrypoint and Cmd');
  const words = { entrypoint: (entrypoint as string[] | null) ?? [], cmd: (cmd as string[] | null) ?? [] };
  return words.entrypoint.length + words.cmd.length > 0 ? words : null;
}

/**
 * A template's `ready_command` with its defaults filled in. Times are in seconds and have the meaning of Kubernetes
 * probes.
 */
export type ReadyProbe = (
  | { type: 'exec'; command: string[] }
  | { type: 'httpGet'; path: string; port: number; scheme: 'HTTP' | 'HTTPS' }
  | { type: 'tcpSocket'; port: number }
) & { initialDelaySeconds: number; periodSeconds: number; timeoutSeconds: number; failureThreshold: number };

/**
 * Reads a template's `ready_command`: JSON with a `type` of `exec`, `httpGet` or `tcpSocket`. Its settings are beside
 * `type` or, as in Kubernetes, below a key of that name; then `type` may be left out.
 * @throws {SyntaxError} for anything else, with what it must have
 */
export function parseReadyCommand(text: string | null): ReadyProbe | null {
  if (!text?.trim()) return null;
  const value = JSON.parse(text) as Record<string, unknown>;
  const type = value.type ?? ['exec', 'httpGet', 'tcpSocket'].find((name) => Object.hasOwn(value, name));
  const settings = {
    ...value,
    ...(typeof type === 'string' ? (value[type] as object | undefined) : undefined),
  } as Record<string, unknown>;
  const timing = {
    initialDelaySeconds: seconds(settings.initialDelaySeconds, 0),
    periodSeconds: Math.max(0.1, seconds(settings.periodSeconds, 1)),
    timeoutSeconds: Math.max(0.1, seconds(settings.timeoutSeconds, 5)),
    failureThreshold: Math.max(1, seconds(settings.failureThreshold, 60)),
  };
  if (type === 'exec') {
    const command = typeof settings.command === 'string' ? ['/bin/sh', '-c', settings.command] : settings.command;
    if (!isWords(command) || command.length === 0) throw new SyntaxError('must have a command for exec');
    return { type, command, ...timing };
  }
  const port = Number(settings.port);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new SyntaxError('must have a port of 1 to 65535');
  if (type === 'tcpSocket') return { type, port, ...timing };
  if (type === 'httpGet') {
    const path = typeof settings.path === 'string' && settings.path.startsWith('/') ? settings.path : '/';
    return { type, path, port, scheme: settings.scheme === 'HTTPS' ? 'HTTPS' : 'HTTP', ...timing };
  }
  throw new SyntaxError('must have the type exec, httpGet or tcpSocket');
}

const isWords = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((word) => typeof word === 'string');
/** Timers count milliseconds in 31 bits. One hour is far below that limit, and a start may not last an hour anyway. */
const maxSeconds = 3600;
const seconds = (value: unknown, fallback: number) =>
  typeof value === 'number' && value >= 0 ? Math.min(value, maxSeconds) : fallback;
