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
 * `timed_out`, `command_failed`, `sandbox_failed`, `bad_reply`, `not_configured`.
 */
export class SandboxError extends Error {
  override name = 'SandboxError';
  readonly code: string;
  /** Of HTTP, where a server answered. */
  readonly status: number | undefined;
  /** Operators find the request by it. */
  readonly requestId: string | undefined;
  /** The fields that were refused. */
  readonly details: readonly { path: string; reason: string }[];
  readonly retryAfterSeconds: number | undefined;

  constructor(code: string, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.status = facts.status;
    this.requestId = facts.requestId;
    this.details = facts.details ?? [];
    this.retryAfterSeconds = facts.retryAfterSeconds;
  }
}

/** A command ended with another exit code than 0 and `check` was asked for. */
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

/** File errors of the agent have a text alone. */
const codeOfStatus: Record<number, string | undefined> = {
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  507: 'resource_exhausted',
};

/** The error that a reply of the API, the gateway or the agent carries. */
export function errorOfReply(
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  text: string,
): SandboxError {
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy in between answered, in its own words.
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

/** No connection, or one that broke off. */
export function connectionError(address: string, cause: Error): SandboxError {
  return new SandboxError('connection_failed', `${address}: ${cause.message}`, { cause });
}
