import { printable } from './printable.ts';

export interface ErrorFacts {
  status?: number | undefined;
  requestId?: string | undefined;
  details?: readonly { path: string; reason: string }[] | undefined;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/**
 * Every failure of this client. `code` is for programs: the codes of the API and the gateway (`docs/errors.md`,
 * `docs/ports.md`), those of the agent (`not_found`, `unauthenticated`, …), and the client's own: `connection_failed`,
 * `timed_out`, `command_failed`, `sandbox_failed`, `bad_reply`, `copy_failed`, `not_configured`. Code and message may come from a
 * sandbox, so they contain no control characters.
 */
export class SandboxError extends Error {
  override name = 'SandboxError';
  readonly code: string;
  /** The HTTP status, if a server replied. */
  readonly status: number | undefined;
  /** The id by which operators find the request. */
  readonly requestId: string | undefined;
  /** The refused fields. */
  readonly details: readonly { path: string; reason: string }[];
  readonly retryAfterSeconds: number | undefined;

  constructor(code: string, message: string, facts: ErrorFacts = {}) {
    super(printable(String(message)), facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = printable(String(code));
    this.status = facts.status;
    this.requestId = facts.requestId;
    this.details = facts.details ?? [];
    this.retryAfterSeconds = facts.retryAfterSeconds;
  }
}

/** With `check`: a command ended with another exit code than 0. */
export class CommandFailedError extends SandboxError {
  override name = 'CommandFailedError';
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;

  constructor(result: { exitCode: number; stdout: string; stderr: string }) {
    super('command_failed', `The command ended with exit code ${result.exitCode}: ${result.stderr.slice(-2000)}`);
    this.exitCode = result.exitCode;
    this.stdout = result.stdout;
    this.stderr = result.stderr;
  }
}

/** File errors of the agent only have a text. */
const codeOfStatus: Record<number, string | undefined> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  507: 'resource_exhausted',
};

/** The error in a reply of the API, the gateway or the agent. */
export function errorOfReply(
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  text: string,
): SandboxError {
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text);
  } catch {
    // The reply is from a proxy and has another format.
  }
  const message = [body.error, body.message].find((each) => typeof each === 'string') ?? text.slice(0, 500);
  const retryAfter = Number(headers['retry-after']);
  return new SandboxError(
    typeof body.code === 'string' ? body.code : (codeOfStatus[status] ?? `http_${status}`),
    `${message || 'no text'} (HTTP ${status})`,
    {
      status,
      requestId: typeof body.request_id === 'string' ? body.request_id : undefined,
      details: Array.isArray(body.details) ? body.details : undefined,
      retryAfterSeconds: Number.isFinite(retryAfter) && headers['retry-after'] ? retryAfter : undefined,
    },
  );
}

/** There is no connection, or it broke off. */
export function connectionError(address: string, cause: Error): SandboxError {
  // The error of a name with several addresses has a code and no text.
  const text = cause.message || (cause as NodeJS.ErrnoException).code || cause.name;
  return new SandboxError('connection_failed', `${address}: ${text}`, { cause });
}
