import type { ErrorCode } from '../domain/errors.ts';
import { describeOperation } from './operation-description.ts';
import { replyExamples } from './reply-examples.ts';
import { bodyExamples, fieldExamples, textExamples } from './schemas/examples.ts';
import { webhookDocuments } from './webhook-documents.ts';

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
    operation.description = describeOperation(operation.description, operation['x-access'], codesOf(operation));
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

function codesOf({ responses }: Part): Map<number, ErrorCode[]> {
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
