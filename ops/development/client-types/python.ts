import type { AgentTypes, ApiTypes, Declaration, Shape } from './shapes.ts';

const head = [
  '# Generated (see clients/README.md). Do not edit.',
  'from __future__ import annotations',
  '',
  'from typing import Any, Literal, TypedDict, Union',
  '',
  'from typing_extensions import NotRequired',
  '',
  '',
].join('\n');

/** The source of `_generated/api.py` of the Python client. */
export function pythonApi({ declarations, operations }: ApiTypes): string {
  const routes = operations.map(({ id, method, path }) => `    "${id}": ("${method}", "${path}"),\n`);
  return [
    head,
    ...declarations.flatMap(declare),
    `# Method and path of each operation.\nOPERATIONS: dict[str, tuple[str, str]] = {\n${routes.join('')}}\n`,
  ].join('');
}

/** The source of `_generated/agent.py` of the Python client. */
export function pythonAgent({ declarations }: AgentTypes): string {
  return `${[head, ...declarations.flatMap(declare)].join('').trimEnd()}\n`;
}

/** Nested objects have no name of their own. They get a name from their parent and their field. */
function declare({ name, shape }: Declaration): string[] {
  const inner: Declaration[] = [];
  const own =
    shape.kind === 'object'
      ? typedDict(name, shape.fields, inner)
      : `${name} = ${render(shape, `${name}Form`, inner)}\n\n`;
  return [...inner.flatMap(declare), own];
}

function typedDict(name: string, fields: (Shape & { kind: 'object' })['fields'], inner: Declaration[]): string {
  const isPlain = fields.every((field) => /^[A-Za-z_]\w*$/.test(field.name) && !keywords.has(field.name));
  const rendered = fields.map((field) => {
    const type = render(field.shape, `${name}${pascal(field.name)}`, inner);
    return { ...field, type: field.required ? type : `NotRequired[${type}]` };
  });
  if (!isPlain) {
    const items = rendered.map((field) => `    "${field.name}": "${field.type.replaceAll('"', "'")}",\n`);
    return `${name} = TypedDict("${name}", {\n${items.join('')}})\n\n\n`;
  }
  const body = rendered.map((field) => {
    const note = field.comment
      ? field.comment
          .split('\n')
          .map((line) => `    # ${line}\n`)
          .join('')
      : '';
    return `${note}    ${field.name}: ${field.type}\n`;
  });
  return `class ${name}(TypedDict):\n${body.join('') || '    pass\n'}\n\n`;
}

const keywords = new Set([
  'from',
  'import',
  'class',
  'def',
  'global',
  'in',
  'is',
  'not',
  'or',
  'and',
  'pass',
  'return',
]);
const pascal = (name: string) => name.replace(/(?:^|_)([a-zA-Z])/g, (_, letter: string) => letter.toUpperCase());
const primitives = { string: 'str', integer: 'int', number: 'float', boolean: 'bool', null: 'None', unknown: 'Any' };

function render(shape: Shape, name: string, inner: Declaration[]): string {
  switch (shape.kind) {
    case 'primitive':
      return primitives[shape.name];
    case 'literals':
      return `Literal[${shape.values.map(literal).join(', ')}]`;
    case 'array':
      return `list[${render(shape.of, name, inner)}]`;
    case 'map':
      return `dict[str, ${render(shape.of, name, inner)}]`;
    case 'union': {
      const parts = shape.of.map((each, index) => render(each, index === 0 ? name : `${name}${index + 1}`, inner));
      return `Union[${parts.join(', ')}]`;
    }
    case 'named':
      return `"${shape.name}"`;
    case 'object':
      inner.push({ name, shape });
      return `"${name}"`;
  }
}

function literal(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return typeof value === 'string' ? `"${value}"` : String(value);
}
