import type { ApiTypes, Declaration, Field, Operation, Shape } from './shapes.ts';

/** The operations that the clients call. */
export const clientOperations = [
  ...['createSandbox', 'listSandboxes', 'getSandbox', 'connectSandbox', 'pauseSandbox', 'resumeSandbox'],
  ...['setSandboxTimeout', 'restartSandbox', 'terminateSandbox', 'deleteSandbox', 'getSandboxMetrics'],
  ...['listSandboxPorts', 'addSandboxPort', 'removeSandboxPort'],
  ...['listTemplates', 'getTemplate', 'importTemplate', 'createTemplateFromSandbox', 'deleteTemplate'],
  ...['getImportJob', 'cancelImportJob', 'listApiKeys', 'createApiKey', 'setApiKeyStatus', 'deleteApiKey'],
  ...['signIn', 'getUsageSummary', 'getQuota', 'listWebhooks', 'createWebhook', 'deleteWebhook', 'sendTestEvent'],
];

// biome-ignore lint/suspicious/noExplicitAny: JSON schemas are walked, not read
type Part = any;

/** The types of the API that clients need, generated from the OpenAPI document. */
export function apiTypes(document: object, operationIds: readonly string[] = clientOperations): ApiTypes {
  const { paths, components } = document as Part;
  const operations: Operation[] = [];
  const declarations: Declaration[] = [];
  for (const id of operationIds) {
    const [path, method, operation] = findOperation(paths, id);
    const name = `${id[0]!.toUpperCase()}${id.slice(1)}`;
    const declare = (suffix: string, shape: Shape | null): string | null => {
      if (shape === null) return null;
      if (shape.kind === 'named') return shape.name;
      declarations.push({ name: `${name}${suffix}`, shape });
      return `${name}${suffix}`;
    };
    const body = operation.requestBody?.content['application/json'].schema;
    operations.push({
      id,
      method,
      path,
      body: declare('Body', body ? toShape(body) : null),
      query: declare('Query', queryShape(operation.parameters ?? [])),
      data: declare('Data', dataShape(operation.responses)) ?? 'null',
    });
  }
  const wanted = new Set<string>();
  const collect = (shape: Shape) => {
    for (const name of namesIn(shape)) {
      if (wanted.has(name)) continue;
      wanted.add(name);
      const declaration = { name, shape: toShape(components.schemas[name]) };
      declarations.push(declaration);
      collect(declaration.shape);
    }
  };
  for (const { shape } of [...declarations]) collect(shape);
  for (const { data } of operations) {
    if (components.schemas[data]) collect({ kind: 'named', name: data });
  }
  declarations.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { declarations, operations };
}

/** The ids of all operations of the API. The probes of the platform are none. */
export function allOperations(document: object): string[] {
  const { paths } = document as Part;
  return Object.entries<Part>(paths)
    .filter(([path]) => path.startsWith('/v1/'))
    .flatMap(([, item]) => Object.values<Part>(item).map(({ operationId }) => operationId));
}

function findOperation(paths: Part, id: string): [path: string, method: string, operation: Part] {
  for (const [path, item] of Object.entries<Part>(paths)) {
    for (const [method, operation] of Object.entries<Part>(item)) {
      if (operation.operationId === id) return [path, method.toUpperCase(), operation];
    }
  }
  throw new Error(`The OpenAPI document has no operation ${id}`);
}

function queryShape(parameters: Part[]): Shape | null {
  const fields = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, required, schema, description }): Field => {
      return { name, required: required ?? false, shape: toShape(schema), comment: description ?? null };
    });
  return fields.length > 0 ? { kind: 'object', fields } : null;
}

/** The contents of the successful replies. */
function dataShape(responses: Part): Shape {
  const shapes = Object.entries<Part>(responses)
    .filter(([status]) => status.startsWith('2'))
    .map(([, response]) => contentOf(response.content?.['application/json']?.schema))
    .map((schema) => (schema ? toShape(schema) : ({ kind: 'primitive', name: 'null' } as const)));
  return union(shapes);
}

/** The data in the envelope of a reply. The replies of an execution have no envelope. */
function contentOf(reply: Part): Part {
  return reply?.properties?.success ? reply.properties.data : reply;
}

function toShape(schema: Part): Shape {
  if (schema.$ref) return { kind: 'named', name: schema.$ref.split('/').at(-1) };
  if (schema.anyOf ?? schema.oneOf) return union((schema.anyOf ?? schema.oneOf).map(toShape));
  if (schema.const !== undefined) return { kind: 'literals', values: [schema.const] };
  if (schema.enum) return { kind: 'literals', values: schema.enum };
  if (Array.isArray(schema.type)) return union(schema.type.map((type: string) => toShape({ ...schema, type })));
  switch (schema.type) {
    case 'string':
    case 'integer':
    case 'number':
    case 'boolean':
    case 'null':
      return { kind: 'primitive', name: schema.type };
    case 'array':
      return { kind: 'array', of: toShape(schema.items) };
    case 'object':
      return objectShape(schema);
    default:
      return { kind: 'primitive', name: 'unknown' };
  }
}

function objectShape(schema: Part): Shape {
  if (!schema.properties) {
    const of = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
    return { kind: 'map', of: toShape(of) };
  }
  const required = new Set<string>(schema.required ?? []);
  const fields = Object.entries<Part>(schema.properties).map(([name, property]): Field => {
    return {
      name,
      required: required.has(name),
      shape: toShape(property),
      comment: property.description ?? null,
    };
  });
  return { kind: 'object', fields };
}

/** The members without duplicates, with literals of the same type grouped. */
function union(shapes: Shape[]): Shape {
  const flat = shapes.flatMap((shape) => (shape.kind === 'union' ? shape.of : [shape]));
  const different = [...new Map(flat.map((shape) => [JSON.stringify(shape), shape])).values()];
  if (different.length === 0) return { kind: 'primitive', name: 'null' };
  return different.length === 1 ? different[0]! : { kind: 'union', of: different };
}

function namesIn(shape: Shape): string[] {
  if (shape.kind === 'named') return [shape.name];
  if (shape.kind === 'array' || shape.kind === 'map') return namesIn(shape.of);
  if (shape.kind === 'union') return shape.of.flatMap(namesIn);
  return shape.kind === 'object' ? shape.fields.flatMap((field) => namesIn(field.shape)) : [];
}
