import { type DescField, type DescFile, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import type { AgentTypes, Declaration, Field, Shape } from './shapes.ts';

const integers = new Set([ScalarType.INT32, ScalarType.UINT32, ScalarType.SINT32, ScalarType.FIXED32]);
const longIntegers = new Set([ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64]);

/** The agent's messages in their JSON form, generated from the descriptors of its proto file. */
export function agentTypes(file: DescFile): AgentTypes {
  const declarations: Declaration[] = file.enums.map(({ name, values }) => ({
    name,
    shape: { kind: 'literals', values: values.map((value) => value.name) },
  }));
  const declareMessage = (message: DescMessage) => {
    declarations.push({ name: formatName(message), shape: { kind: 'object', fields: message.fields.map(toField) } });
    message.nestedMessages.forEach(declareMessage);
  };
  file.messages.forEach(declareMessage);
  declarations.sort((a, b) => (a.name < b.name ? -1 : 1));
  const procedures = file.services.flatMap((service) =>
    service.methods.map((method) => ({
      name: `${service.name}/${method.name}`,
      isStream: method.methodKind !== 'unary',
      input: formatName(method.input),
      output: formatName(method.output),
    })),
  );
  return { declarations, procedures };
}

/** Names of nested messages include their parents: `ProcessEvent.StartEvent` is `ProcessEventStartEvent`. */
function formatName(message: { typeName: string }): string {
  return message.typeName.split('.').slice(1).join('');
}

/**
 * The agent's replies contain zero and empty values, so only messages, members of a oneof and `optional` may be
 * missing.
 */
function toField(field: DescField): Field {
  const isAlwaysThere = field.oneof === undefined && field.fieldKind !== 'message' && !field.proto.proto3Optional;
  return { name: field.jsonName, required: isAlwaysThere, shape: shapeOfField(field), comment: null };
}

function shapeOfField(field: DescField): Shape {
  switch (field.fieldKind) {
    case 'scalar':
      return scalar(field.scalar);
    case 'enum':
      return { kind: 'named', name: formatName(field.enum) };
    case 'message':
      return messageShape(field.message);
    case 'map':
      return { kind: 'map', of: field.mapKind === 'scalar' ? scalar(field.scalar) : unknown };
    case 'list':
      if (field.listKind === 'message') return { kind: 'array', of: messageShape(field.message) };
      return { kind: 'array', of: field.listKind === 'scalar' ? scalar(field.scalar) : unknown };
  }
}

function messageShape(message: DescMessage): Shape {
  if (message.typeName === 'google.protobuf.Timestamp') return { kind: 'primitive', name: 'string' };
  return { kind: 'named', name: formatName(message) };
}

/** As in protobuf's JSON form: long integers are strings, bytes are base64. */
function scalar(type: ScalarType): Shape {
  if (integers.has(type)) return { kind: 'primitive', name: 'integer' };
  if (longIntegers.has(type) || type === ScalarType.STRING || type === ScalarType.BYTES)
    return { kind: 'primitive', name: 'string' };
  if (type === ScalarType.BOOL) return { kind: 'primitive', name: 'boolean' };
  if (type === ScalarType.DOUBLE) return { kind: 'primitive', name: 'number' };
  throw new Error(`No JSON form of scalar ${type} is known here`);
}

const unknown: Shape = { kind: 'primitive', name: 'unknown' };
