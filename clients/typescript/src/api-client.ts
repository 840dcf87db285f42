import { randomUUID } from 'node:crypto';
import type { Connection } from './connection-options.ts';
import { SandboxError } from './errors.ts';
import { type Operations, operations } from './generated/api.ts';
import { exchange, readText } from './http-exchange.ts';
import { type RequestOptions, withTimeout } from './request-options.ts';
import { withRetries } from './retries.ts';

const maxReplyBytes = 32 * 1024 * 1024;

type Operation = keyof Operations;

export interface ApiRequest<Id extends Operation> extends RequestOptions {
  /** The values of `{name}` in the path. */
  path?: Record<string, string | number>;
  query?: NonNullable<Operations[Id]['query']>;
  body?: NonNullable<Operations[Id]['body']>;
}

/** The control plane. Requests that create objects have an `Idempotency-Key`, so they may be repeated. */
export class ApiClient {
  readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  /**
   * Calls an operation of the OpenAPI document and returns the `data` of its reply.
   * @throws {SandboxError} with the code of the refusal
   */
  async call<Id extends Operation>(id: Id, request: ApiRequest<Id> = {}): Promise<Operations[Id]['data']> {
    const { apiUrl, apiKey } = this.connection;
    const [method, template] = operations[id];
    const path = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(request.path![name]!));
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    const headers: Record<string, string> = { Accept: 'application/json', ...authorization(apiKey) };
    if (method === 'POST') headers['Idempotency-Key'] = randomUUID();
    if (request.body !== undefined) headers['Content-Type'] = 'application/json';
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const target = query.size > 0 ? `${path}?${query}` : path;
    const base = new URL(apiUrl);
    const server = { origin: base.origin, host: null };
    const { requestTimeoutMs = this.connection.requestTimeoutMs } = request;
    const text = await withTimeout({ ...request, requestTimeoutMs }, `${method} ${path}`, (signal) =>
      withRetries(async () => {
        const prefix = base.pathname.replace(/\/$/, '');
        const response = await exchange(server, `${prefix}${target}`, { method, headers, body, signal });
        return readText(response, maxReplyBytes).catch((error) => {
          throw signal.aborted ? signal.reason : error;
        });
      }, signal),
    );
    try {
      return JSON.parse(text).data;
    } catch (cause) {
      throw new SandboxError('bad_reply', `${method} ${path}: the reply is no JSON`, { cause });
    }
  }
}

/** Access tokens of a sign-in are JWTs. All other keys are API keys. */
function authorization(apiKey: string): Record<string, string> {
  return apiKey.startsWith('eyJ') ? { Authorization: `Bearer ${apiKey}` } : { 'X-API-Key': apiKey };
}
