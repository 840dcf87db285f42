import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { ErrorCode } from '../../domain/errors.ts';
import type { Access } from '../access.ts';
import { ofEveryRoute } from '../schemas/replies.ts';
import { bodyExamples, fieldExamples, textExamples } from './examples.ts';
import { webhookDocuments } from './webhooks.ts';

/** Any JSON part of the document. */
// biome-ignore lint/suspicious/noExplicitAny: schemas are walked, not read
type Part = any;

/** Marks an operation with an optional body. The mark is removed when the document is complete. */
export const optionalBodyMark = 'x-body-optional';

/**
 * Adds facts to the document that the validating schemas lack: required bodies, descriptions and examples. Removes the
 * bounds that the library adds to every integer, because tools use the smallest allowed number as an example.
 */
export function completeDocument<D extends object>(document: D): D {
  const { paths = {}, components = {} } = document as {
    paths?: Record<string, Record<string, Part>>;
    components?: Part;
  };
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) completeOperation(operation);
  visitSchemas({ paths, components });
  return { ...document, webhooks: webhookDocuments() };
}

function completeOperation(operation: Part): void {
  const { requestBody, parameters = [], operationId } = operation;
  if (requestBody) {
    requestBody.required = !operation[optionalBodyMark];
    const example = bodyExamples[operationId];
    if (example) requestBody.content['application/json'].example = example;
  }
  delete operation[optionalBodyMark];
  addReplyExample(operation);
  if (operation.description) {
    operation.description = describeOperation(operation.description, operation['x-access'], listErrorCodes(operation));
  }
  for (const parameter of parameters) {
    if (parameter.in === 'path') parameter.example = parameter.schema?.example ?? fieldExamples[parameter.name];
  }
}

function addReplyExample({ operationId, responses }: Part): void {
  const example = replyExamples[operationId];
  const media = example && Object.values<Part>(responses[example.status]?.content ?? {})[0];
  if (media && example.body !== undefined) media.example = example.body;
}

function listErrorCodes({ responses }: Part): Map<number, ErrorCode[]> {
  const schemas = Object.entries<Part>(responses).map(([status, { content }]) => {
    return [Number(status), content?.['application/json']?.schema.properties?.code?.enum ?? []] as const;
  });
  return new Map(schemas.filter(([status]) => status >= 400));
}

function visitSchemas(part: Part): void {
  if (part === null || typeof part !== 'object') return;
  if (part.minimum === Number.MIN_SAFE_INTEGER) delete part.minimum;
  if (part.maximum === Number.MAX_SAFE_INTEGER) delete part.maximum;
  for (const [name, schema] of Object.entries<Part>(part.properties ?? {})) {
    const known = [fieldExamples[name], textExamples[name]].filter((each) => each !== undefined);
    const example = known.find((each) => takesExample(schema, each));
    // A schema may have an example of its own, where the name has another meaning.
    if (example !== undefined) schema.examples ??= [example];
  }
  for (const below of Object.values(part)) visitSchemas(below);
}

/** Whether a schema has the type of an example and no further constraint. */
function takesExample(schema: Part, example: unknown): boolean {
  return [schema, ...(schema.anyOf ?? [])].some((each: Part) => {
    if (each.enum || each.const !== undefined || (each.format && each.format !== 'email')) return false;
    return [each.type].flat().some((type) => isOfType(type, each, example));
  });
}

function isOfType(type: unknown, schema: Part, example: unknown): boolean {
  if (type === 'integer' || type === 'number') return typeof example === 'number';
  if (type === 'array') return Array.isArray(example) && typeof example[0] === schema.items?.type;
  if (type === 'object') {
    const isRecord = typeof example === 'object' && !Array.isArray(example);
    return isRecord && schema.properties === undefined && schema.additionalProperties !== undefined;
  }
  return typeof example === type;
}

const callers: Record<Access['who'], string> = {
  anyone: 'anyone, without a key',
  user: 'every user',
  account_root: 'root users of the account, and operators',
  operator: 'operators of the platform (role `admin`)',
};

const objects: Record<Access['rows'], string> = {
  none: '',
  own: ', on what is their own',
  by_role: ', on their own objects; root users on all objects of the account, and operators on any account',
  account: ', on all objects of the account',
  everything: ', on all accounts',
};

/**
 * The description of an operation in the reference: the text of its route, who may call it, and, by status, its errors
 * beside those of every route. Access and errors are read from the route's declarations, so the reference matches what
 * is enforced.
 */
function describeOperation(
  text: string,
  access: Pick<Access, 'who' | 'rows'> | undefined,
  codes: ReadonlyMap<number, ErrorCode[]>,
): string {
  const parts = [text];
  if (access) parts.push(`**Callers:** ${callers[access.who]}${objects[access.rows]}.`);
  const errors = [...codes].flatMap(([status, all]) => {
    const own = all.filter((code) => !ofEveryRoute.includes(code));
    return own.length === 0 ? [] : [`${status} ${own.map((code) => `\`${code}\``).join(', ')}`];
  });
  if (errors.length > 0) parts.push(`**Errors:** ${errors.join('; ')}.`);
  return parts.join('\n\n');
}

/** A successful reply of a running platform, with replaced ids, times and secrets. */
export interface ReplyExample {
  status: number;
  /** JSON, or the text of a reply that is not JSON. Absent: the reply has no body. */
  body?: unknown;
}

/**
 * The folder of the replies in the reference, one file per operation id. `test/docs/reference.test.ts` writes them and
 * compares them with a running platform.
 */
export const replyExamplesDir = path.join(import.meta.dirname, '../../docs/reference/replies');

const replyExamples: Readonly<Record<string, ReplyExample>> = Object.fromEntries(
  (existsSync(replyExamplesDir) ? readdirSync(replyExamplesDir) : []).map((name) => [
    path.basename(name, '.json'),
    JSON.parse(readFileSync(path.join(replyExamplesDir, name), 'utf8')),
  ]),
);
