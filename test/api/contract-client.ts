import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { FastifyInstance, InjectOptions } from 'fastify';

// biome-ignore lint/suspicious/noExplicitAny: tests look into replies of many shapes
export type Json = any;

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  body: Json;
  text: string;
}

export interface Request {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  /** Sent unchanged, with `contentType`. */
  rawBody?: string | Buffer;
  contentType?: string;
  /** For requests during which the server may close before it has read everything. */
  remoteAddress?: string;
}

/** The OpenAPI document, and what checks replies against it. */
interface Contract {
  document: Json;
  ajv: Ajv2020;
  /** By the pointer to their schema. */
  validators: Map<string, ValidateFunction>;
}

/** Only the address of its server depends on settings, so the files of a worker process share one. */
let contract: Promise<Contract> | null = null;

async function readContract(app: FastifyInstance): Promise<Contract> {
  const document = (await app.inject('/openapi.json')).json();
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  return { document, ajv, validators: new Map() };
}

/**
 * Sends requests and checks every reply against the OpenAPI document: an undocumented status, a missing field or an
 * additional field fails the test.
 */
export class ContractClient {
  readonly #app: FastifyInstance;
  readonly document: Json;
  readonly #contract: Contract;

  private constructor(app: FastifyInstance, known: Contract) {
    this.#app = app;
    this.document = known.document;
    this.#contract = known;
  }

  static async of(app: FastifyInstance): Promise<ContractClient> {
    contract ??= readContract(app);
    return new ContractClient(app, await contract);
  }

  async send(method: string, url: string, request: Request = {}): Promise<Reply> {
    const headers: Record<string, string> = { ...request.headers };
    if (request.key) headers['x-api-key'] = request.key;
    const options: InjectOptions = { method: method as 'GET', url, headers };
    if (request.rawBody !== undefined) {
      options.payload = request.rawBody;
      if (request.contentType) headers['content-type'] = request.contentType;
    } else if (request.body !== undefined) {
      options.payload = JSON.stringify(request.body);
      headers['content-type'] = request.contentType ?? 'application/json';
    } else if (request.contentType) headers['content-type'] = request.contentType;
    if (request.remoteAddress) options.remoteAddress = request.remoteAddress;
    const raw = await this.#app.inject(options);
    const type = String(raw.headers['content-type'] ?? '');
    const reply: Reply = {
      status: raw.statusCode,
      headers: raw.headers,
      text: raw.body,
      body: type.startsWith('application/json') && raw.body !== '' ? JSON.parse(raw.body) : null,
    };
    this.#check(method, url, reply, type);
    return reply;
  }

  #check(method: string, url: string, reply: Reply, type: string): void {
    if (!reply.headers['x-request-id']) throw new Error(`${method} ${url}: no X-Request-Id`);
    if (reply.status === 429 && !/^[1-9]\d*$/.test(String(reply.headers['retry-after']))) {
      throw new Error(`${method} ${url}: 429 without Retry-After`);
    }
    const path = url.split('?', 1)[0]!;
    const template = this.#findTemplate(path, method);
    if (template === null) {
      if (![301, 400, 404, 405, 429].includes(reply.status) && !/^\/(docs|guide|openapi)/.test(path)) {
        throw new Error(`${method} ${url} answered ${reply.status} and is not in the document`);
      }
      if (reply.status >= 400) this.#checkError(reply);
      return;
    }
    const operation = this.document.paths[template][method.toLowerCase()];
    const response = operation.responses[reply.status];
    if (!response)
      throw new Error(`${operation.operationId} answered ${reply.status}, which is not documented: ${reply.text}`);
    const [mediaType] = type.split(';', 1) as [string];
    const media = Object.keys(response.content ?? {});
    if (media.length === 0 && reply.text === '') return;
    if (!media.includes(mediaType)) throw new Error(`${operation.operationId} answered ${type}, not ${media}`);
    if (mediaType !== 'application/json') return;
    const pointer = [
      'paths',
      template,
      method.toLowerCase(),
      'responses',
      String(reply.status),
      'content',
      mediaType,
      'schema',
    ]
      .map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
      .join('/');
    const { ajv, validators } = this.#contract;
    const validate = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#/${pointer}` });
    validators.set(pointer, validate);
    if (!validate(reply.body)) {
      throw new Error(
        `${operation.operationId} ${reply.status}: ${ajv.errorsText(validate.errors)}\n${reply.text.slice(0, 2000)}`,
      );
    }
    if (reply.status >= 400 && template.startsWith('/v1/')) this.#checkError(reply);
  }

  #checkError(reply: Reply): void {
    const { success, error, code, request_id: requestId, timestamp } = reply.body ?? {};
    if (
      success !== false ||
      typeof error !== 'string' ||
      typeof code !== 'string' ||
      Number.isNaN(Date.parse(timestamp))
    ) {
      throw new Error(`not an error body: ${reply.text}`);
    }
    if (requestId !== reply.headers['x-request-id']) throw new Error('request_id is not X-Request-Id');
  }

  /** The documented path of this one. A literal path takes precedence over one with parameters. */
  #findTemplate(path: string, method: string): string | null {
    const found = Object.keys(this.document.paths)
      .filter((template) => this.document.paths[template][method.toLowerCase()])
      .filter((template) => new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, '[^/]+')}/?$`).test(path));
    return found.sort((a, b) => a.split('{').length - b.split('{').length)[0] ?? null;
  }
}
