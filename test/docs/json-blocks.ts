import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { CodeBlock } from './code-blocks.ts';

// biome-ignore lint/suspicious/noExplicitAny: any JSON
type Json = any;

const agentMessages = JSON.parse(
  readFileSync(path.resolve(import.meta.dirname, '../../api/openapi/agent/messages.json'), 'utf8'),
);

/** The value of a `json` block, in which `…` stands for omitted parts. */
export function parseJsonBlock({ source }: CodeBlock): Json {
  return JSON.parse(source.replaceAll(/,\s*…(?=\s*[}\]])/g, '').replaceAll(/(?<=[{[])…(?=[}\]])/g, ''));
}

/**
 * Fields of a `json` block that the shown object does not have. The words after the fence name the object: the reply of
 * an operation (`startExec 201`), an event (`webhook sandbox.started`), or a message of the agent (`agent EntryInfo`).
 * @param document the OpenAPI document of the API
 */
export function fieldsThatAreNotThere(block: CodeBlock, document: Json): string[] {
  const value = parseJsonBlock(block);
  const [kind, name] = block.about;
  if (kind === undefined) return [];
  if (kind === 'agent') return unknownFields(value, { $ref: `#/components/schemas/${name}` }, agentMessages);
  if (kind === 'webhook') {
    const { example } = document.webhooks[name!].post.requestBody.content['application/json'];
    return namesIn(value).filter((field) => !namesIn(example).includes(field));
  }
  const operations = Object.values<Json>(document.paths).flatMap((item) => Object.values<Json>(item));
  const operation = operations.find(({ operationId }) => operationId === kind);
  const schema = operation.responses[name!].content['application/json'].schema;
  const shown = schema.properties?.data && !('success' in value) ? schema.properties.data : schema;
  return unknownFields(value, shown, document.components.schemas);
}

function namesIn(value: Json, at = ''): string[] {
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([name, below]) => [`${at}${name}`, ...namesIn(below, `${at}${name}.`)]);
}

function unknownFields(value: Json, schema: Json, named: Record<string, Json>, at = ''): string[] {
  if (value === null || typeof value !== 'object') return [];
  const forms = alternatives(schema, named);
  if (Array.isArray(value)) {
    const items = forms.flatMap(({ items }) => (items ? [items] : []));
    return value.flatMap((each, index) => unknownFields(each, { anyOf: items }, named, `${at}${index}.`));
  }
  if (forms.some(({ additionalProperties }) => typeof additionalProperties === 'object')) return [];
  return Object.entries(value).flatMap(([name, below]) => {
    const fields = forms.flatMap(({ properties }) => (properties?.[name] ? [properties[name]] : []));
    return fields.length === 0 ? [`${at}${name}`] : unknownFields(below, { anyOf: fields }, named, `${at}${name}.`);
  });
}

function alternatives(schema: Json, named: Record<string, Json>): Json[] {
  if (schema.$ref) return alternatives(named[schema.$ref.split('/').at(-1)], named);
  const all = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) => each ?? []);
  return all.length === 0 ? [schema] : all.flatMap((each: Json) => alternatives(each, named));
}
