import type { Declaration, Shape } from './shapes.ts';

/** The declarations as JSON schemas, for `components.schemas` of an OpenAPI document. */
export function jsonSchemas(declarations: readonly Declaration[]): Record<string, object> {
  return Object.fromEntries(declarations.map(({ name, shape }) => [name, toSchema(shape)]));
}

function toSchema(shape: Shape): object {
  switch (shape.kind) {
    case 'primitive':
      return shape.name === 'unknown' ? {} : { type: shape.name };
    case 'literals':
      return { type: 'string', enum: shape.values };
    case 'array':
      return { type: 'array', items: toSchema(shape.of) };
    case 'map':
      return { type: 'object', additionalProperties: toSchema(shape.of) };
    case 'union':
      return { anyOf: shape.of.map(toSchema) };
    case 'named':
      return { $ref: `#/components/schemas/${shape.name}` };
    case 'object':
      return {
        type: 'object',
        properties: Object.fromEntries(shape.fields.map((field) => [field.name, toSchema(field.shape)])),
      };
  }
}
