import fs from 'node:fs';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { type ReplyExample, replyExamplesDir } from '../../api/openapi/document.ts';
import { fieldExamples } from '../../api/openapi/examples.ts';

// biome-ignore lint/suspicious/noExplicitAny: any JSON
export type Json = any;

export interface Call {
  /** Fields of the path and of the query. */
  params?: Record<string, string>;
  query?: Record<string, string>;
  /** Replaces the example of the document. Null sends none. */
  body?: Json;
  /** The unchanged body of a signed request. */
  rawBody?: string;
  headers?: Record<string, string>;
  /** `Authorization`, in place of the root user's key. Null sends none. */
  authorization?: string | null;
}

interface Reply {
  status: number;
  headers: Headers;
  /** JSON, text, or undefined without a body. */
  body: Json;
}

/** Fields whose values must not be shown in examples. */
const secrets = [
  ...[
    'api_key',
    'e2b_api_key',
    'envd_access_token',
    'access_token',
    'initial_password',
    'client_secret',
    'public_key',
    'prefix',
  ],
  ...['request_id', 'audited_request_id', 'credential', 'setup_intent_id', 'fingerprint', 'address'],
];

const sizes = { items: 2, linesOfText: 20, letters: 400 };

/**
 * Calls the operations of a running platform with the examples of its document. Each reply is checked against its
 * schema. Shown replies are compared with the repository's example, or replace it.
 */
export class ReferenceRecorder {
  /** The platform's objects that replace the ids in the examples, by field. */
  readonly objects: Record<string, string> = {};
  /** Texts of this machine, and their replacements in the examples. */
  readonly replaced: [RegExp, string][] = [];
  readonly shown = new Map<string, ReplyExample>();
  readonly url: string;
  readonly #key: string;
  readonly #document: Json;
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: true });
  readonly #startedMs = Date.now();
  readonly #ids = new Map<string, string>();

  constructor(url: string, key: string, document: Json) {
    [this.url, this.#key, this.#document] = [url, key, document];
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(document, 'openapi');
  }

  /** Ids of all operations. */
  get operations(): string[] {
    const items = Object.values<Json>(this.#document.paths);
    return items.flatMap((item) => Object.values<Json>(item).map(({ operationId }) => operationId));
  }

  /**
   * Calls an operation and keeps its reply as the example. @returns `data` of the reply, or the whole reply without an
   * envelope
   */
  async show(operationId: string, call: Call = {}): Promise<Json> {
    const { status, body } = await this.call(operationId, call);
    this.keep(operationId, status, body);
    return body?.data ?? body;
  }

  /** Keeps a reply as the example. */
  keep(operationId: string, status: number, body: Json): void {
    this.shown.set(operationId, { status, ...(body !== undefined && { body: this.#asExample(body) }) });
  }

  /** @throws if the platform refuses it, or the reply differs from the document */
  async call(operationId: string, call: Call = {}): Promise<Reply> {
    const { template, method, operation } = this.#find(operationId);
    const params = { ...this.objects, ...call.params };
    const address = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? name));
    const query = call.query ? `?${new URLSearchParams(call.query)}` : '';
    const example = operation.requestBody?.content['application/json'].example;
    const body = call.body === undefined ? this.#withObjects(example) : (call.body ?? undefined);
    const authorization = call.authorization === undefined ? `Api-Key ${this.#key}` : call.authorization;
    const response = await fetch(`${this.url}${address}${query}`, {
      ...{ method, redirect: 'manual' },
      headers: {
        ...(authorization !== null && { authorization }),
        ...((body !== undefined || call.rawBody) && { 'content-type': 'application/json' }),
        ...call.headers,
      },
      ...(call.rawBody ? { body: call.rawBody } : body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const type = (response.headers.get('content-type') ?? '').split(';')[0]!;
    const parsed = type === 'application/json' && text !== '' ? JSON.parse(text) : text || undefined;
    const reply = { status: response.status, headers: response.headers, body: parsed };
    if (response.status >= 400) throw new Error(`${operationId} answered ${response.status}: ${text}`);
    this.#check(operationId, template, method, reply, type);
    return reply;
  }

  /** The differences between the platform's replies and the repository's examples. */
  differences(): string[] {
    return [...this.shown].flatMap(([operationId, { status, body }]) => {
      const file = exampleFile(operationId);
      if (!fs.existsSync(file)) return [`${operationId} has no example`];
      const example = JSON.parse(fs.readFileSync(file, 'utf8')) as ReplyExample;
      const [seen, kept] = [formatFields(status, body), formatFields(example.status, example.body)];
      return seen === kept ? [] : [`${operationId} answers ${seen}, and its example is ${kept}`];
    });
  }

  write(): void {
    fs.mkdirSync(replyExamplesDir, { recursive: true });
    for (const [operationId, example] of this.shown) {
      fs.writeFileSync(exampleFile(operationId), `${JSON.stringify(example, null, 2)}\n`);
    }
  }

  #find(operationId: string): { template: string; method: string; operation: Json } {
    for (const [template, item] of Object.entries<Json>(this.#document.paths)) {
      for (const [method, operation] of Object.entries<Json>(item)) {
        if (operation.operationId === operationId) return { template, method: method.toUpperCase(), operation };
      }
    }
    throw new Error(`There is no operation ${operationId}`);
  }

  #check(operationId: string, template: string, method: string, { status, body }: Reply, type: string): void {
    const content = this.#document.paths[template][method.toLowerCase()].responses[status]?.content;
    if (type !== 'application/json') return;
    if (!content) throw new Error(`${operationId} answered ${status}, which is not in the document`);
    const steps = ['paths', template, method.toLowerCase(), 'responses', `${status}`, 'content', type, 'schema'];
    const pointer = steps.map((step) => encodeURIComponent(step.replaceAll('/', '~1'))).join('/');
    const validate = this.#ajv.getSchema(`openapi#/${pointer}`)!;
    if (!validate(body)) throw new Error(`${operationId}: ${this.#ajv.errorsText(validate.errors)}`);
  }

  /** An example of the document, with this platform's ids. */
  #withObjects(example: Json): Json {
    if (example === undefined) return undefined;
    let text = JSON.stringify(example);
    for (const [field, id] of Object.entries(this.objects)) {
      if (typeof fieldExamples[field] === 'string') text = text.replaceAll(`"${fieldExamples[field]}"`, `"${id}"`);
    }
    return JSON.parse(text);
  }

  #asExample(value: Json, field = ''): Json {
    if (Array.isArray(value)) return value.slice(0, sizes.items).map((each) => this.#asExample(each, field));
    if (value !== null && typeof value === 'object') {
      return Object.fromEntries(Object.entries(value).map(([name, below]) => [name, this.#asExample(below, name)]));
    }
    if (typeof value !== 'string' || value === '') return value;
    // The id of a quota request has the same name as that of an HTTP request.
    const isId = field === 'request_id' && value.startsWith('qtr-');
    if (secrets.includes(field) && fieldExamples[field] && !isId) return fieldExamples[field];
    return this.#textOfExample(value);
  }

  #textOfExample(text: string): string {
    const lines = text.split('\n');
    let shown = lines.length > sizes.linesOfText ? `${lines.slice(0, sizes.linesOfText).join('\n')}\n…\n` : text;
    if (shown.length > sizes.letters && lines.length < 3) shown = `${shown.slice(0, sizes.letters)}…`;
    for (const [pattern, instead] of this.replaced) shown = shown.replaceAll(pattern, instead);
    return shown
      .replaceAll(/(?<=token=|add-card#)[\w.~-]+/g, '…')
      .replaceAll(/\b(pi|pm|seti)_\w+/g, '$1_1QexampleK2eZvKYlo2C')
      .replaceAll(/\b\d{4}-\d\d-\d\d\b(?!T)/g, (day) => this.#replaceDay(day))
      .replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time, fraction = '') =>
        this.#replaceTime(time, fraction),
      )
      .replaceAll(/\b([a-z]{3,4})-([a-z0-9]{18,30})\b/g, (id, kind: string) => this.#replaceId(id, kind));
  }

  /** Moves a time to noon of a fixed day in spring. */
  #replaceTime(time: string, fraction: string): string {
    const atMs = Date.UTC(2026, 2, 1, 12) + Math.round((Date.parse(time) - this.#startedMs) / 1000) * 1000;
    return `${new Date(atMs).toISOString().slice(0, 19)}${fraction.replaceAll(/\d/g, '0')}Z`;
  }

  #replaceDay(day: string): string {
    const dayMs = 86_400_000;
    const days = Math.floor(Date.parse(day) / dayMs) - Math.floor(this.#startedMs / dayMs);
    return new Date(Date.UTC(2026, 2, 1) + days * dayMs).toISOString().slice(0, 10);
  }

  #replaceId(id: string, kind: string): string {
    const known = this.#ids.get(id);
    if (known) return known;
    const examples = Object.values(fieldExamples).filter((each) => typeof each === 'string');
    const example =
      examples.find((each) => new RegExp(`^${kind}-[a-z0-9]+$`).test(each)) ?? `${kind}-9ypjhn8d3fkq6w2mzx5v`;
    const before = [...this.#ids.values()].filter((each) => each.startsWith(`${kind}-`)).length;
    const [head, tail] = [example.slice(0, kind.length + 1), example.slice(kind.length + 1)];
    const turned = before % tail.length;
    this.#ids.set(id, `${head}${tail.slice(turned)}${tail.slice(0, turned)}`);
    return this.#ids.get(id)!;
  }
}

const exampleFile = (operationId: string) => path.join(replyExamplesDir, `${operationId}.json`);

/** The status, and the names of the fields if they are always the same. */
function formatFields(status: number, body: Json): string {
  const data = body?.data ?? body;
  if (data === null || typeof data !== 'object') return `${status} ${body === undefined ? 'nothing' : typeof body}`;
  return `${status} ${Object.keys(data).sort().join(' ')}`;
}
