import { type Operations, operations } from './generated.ts';

export type OperationId = keyof Operations;
export type DataOf<Id extends OperationId> = Operations[Id]['data'];
export type QueryOf<Id extends OperationId> = NonNullable<Operations[Id]['query']>;
export type BodyOf<Id extends OperationId> = NonNullable<Operations[Id]['body']>;

/** The names in braces of an address such as `/v1/sandboxes/{sandbox_id}`. */
type PathParameters<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { [Key in Name]: string | number } & PathParameters<Rest>
  : unknown;

/** The parameters of the address, the query and the body of an operation, as far as it has them. */
export type InputOf<Id extends OperationId> = {
  path?: PathParameters<(typeof operations)[Id][1]>;
  query?: QueryOf<Id>;
  body?: BodyOf<Id>;
};

/** A reply of the API that is not a success. */
export class ApiError extends Error {
  /** The HTTP status; 0: there was no reply. */
  readonly status: number;
  /** The stable code of the error, or `unreachable` and `timed_out` when there was no reply. */
  readonly code: string;
  readonly requestId: string | null;
  /** Path and reason of each refused field. */
  readonly details: readonly { path: string; reason: string }[];
  readonly retryAfterSeconds: number | null;

  constructor(fields: {
    message: string;
    status: number;
    code: string;
    requestId?: string | null;
    details?: readonly { path: string; reason: string }[];
    retryAfterSeconds?: number | null;
  }) {
    super(fields.message);
    this.status = fields.status;
    this.code = fields.code;
    this.requestId = fields.requestId ?? null;
    this.details = fields.details ?? [];
    this.retryAfterSeconds = fields.retryAfterSeconds ?? null;
  }
}

/** Longer than the longest deadline of the API, a create with its image. */
const replyTimeoutMs = 130_000;

/** The address of the API below the console's own address, so that both work under a path prefix. */
export function apiUrl(path: string, query: object = {}): string {
  const url = new URL(`..${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** The address of an operation with its parameters. */
export function operationUrl<Id extends OperationId>(id: Id, { path, query }: InputOf<Id> = {}): string {
  const values = (path ?? {}) as Record<string, string | number>;
  const [, pattern] = operations[id];
  const filled = pattern.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
  return apiUrl(filled, query);
}

/**
 * Calls an operation of the API with the session's cookie and returns the `data` of its reply.
 * @throws {ApiError}
 */
export async function call<Id extends OperationId>(
  id: Id,
  input: InputOf<Id> = {},
  signal?: AbortSignal,
): Promise<DataOf<Id>> {
  const [method] = operations[id];
  const timeout = AbortSignal.timeout(replyTimeoutMs);
  let reply: Response;
  let text: string;
  try {
    reply = await fetch(operationUrl(id, input), {
      method,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: input.body === undefined ? {} : { 'content-type': 'application/json' },
      body: input.body === undefined ? null : JSON.stringify(input.body),
    });
    text = await reply.text();
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw timeout.aborted
      ? new ApiError({ status: 0, code: 'timed_out', message: 'The platform does not reply' })
      : new ApiError({ status: 0, code: 'unreachable', message: 'The platform cannot be reached' });
  }
  const body = readJson(text);
  if (reply.ok && text !== '' && !body) {
    throw new ApiError({
      status: reply.status,
      code: 'not_the_platform',
      message: 'Something between here and the platform replied instead of it',
    });
  }
  // The replies of an execution have no envelope.
  if (reply.ok) return (body && 'success' in body ? (body.data ?? null) : (body ?? {})) as DataOf<Id>;
  const failure: Failure = body?.success === false ? body : {};
  const retryAfter = Number(reply.headers.get('retry-after'));
  throw new ApiError({
    status: reply.status,
    code: failure.code ?? `http_${reply.status}`,
    message: failure.error ?? `The platform replied with status ${reply.status}`,
    requestId: failure.request_id ?? reply.headers.get('x-request-id'),
    details: failure.details ?? [],
    retryAfterSeconds: retryAfter > 0 ? retryAfter : null,
  });
}

type Failure = { error?: string; code?: string; request_id?: string; details?: ApiError['details'] };

/** Null: no object of JSON, as a proxy in between may reply. */
function readJson(text: string): ({ success?: boolean; data?: unknown } & Failure) | null {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
