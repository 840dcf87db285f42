import type { AgentTypes, ApiTypes, Declaration, Shape } from './shapes.ts';

const head = '// Generated (see clients/README.md). Do not edit.\n';

/** The source of `generated/api.ts` of the TypeScript client. */
export function typescriptApi({ declarations, operations }: ApiTypes): string {
  const types = operations.map(
    ({ id, body, query, data }) => `  ${id}: { body: ${body ?? 'null'}; query: ${query ?? 'null'}; data: ${data} };\n`,
  );
  const routes = operations.map(({ id, method, path }) => `  ${id}: ['${method}', '${path}'],\n`);
  return [
    head,
    ...declarations.map(declare),
    `export interface Operations {\n${types.join('')}}\n`,
    `/** Method and path of each operation. */\nexport const operations = {\n${routes.join('')}} as const;\n`,
  ].join('\n');
}

/** The source of `generated/agent.ts` of the TypeScript client. */
export function typescriptAgent({ declarations, procedures }: AgentTypes): string {
  const list = (isStream: boolean) =>
    procedures
      .filter((procedure) => procedure.isStream === isStream)
      .map(({ name, input, output }) => `  '${name}': { input: ${input}; output: ${output} };\n`)
      .join('');
  return [
    head,
    ...declarations.map(declare),
    `/** One message, one reply. */\nexport interface Calls {\n${list(false)}}\n`,
    `/** Streams. */\nexport interface Streams {\n${list(true)}}\n`,
  ].join('\n');
}

function declare({ name, shape }: Declaration): string {
  if (shape.kind === 'object') {
    if (shape.fields.length === 0) return `export type ${name} = Record<string, never>;\n`;
    return `export interface ${name} ${render(shape, '')}\n`;
  }
  if (shape.kind === 'literals' && shape.values.length > 3) {
    return `export type ${name} =${lines(shape.values.map((value) => literal(value)))};\n`;
  }
  return `export type ${name} = ${render(shape, '')};\n`;
}

const lines = (members: string[]) => members.map((member) => `\n  | ${member}`).join('');
const literal = (value: unknown) => (typeof value === 'string' ? `'${value}'` : String(value));

function render(shape: Shape, indent: string): string {
  switch (shape.kind) {
    case 'primitive':
      return shape.name === 'integer' ? 'number' : shape.name;
    case 'literals':
      return shape.values.map(literal).join(' | ');
    case 'array': {
      const of = render(shape.of, indent);
      const isUnion = shape.of.kind === 'union' || (shape.of.kind === 'literals' && shape.of.values.length > 1);
      return isUnion ? `(${of})[]` : `${of}[]`;
    }
    case 'map':
      return `Record<string, ${render(shape.of, indent)}>`;
    case 'union':
      return shape.of.map((each) => render(each, indent)).join(' | ');
    case 'named':
      return shape.name;
    case 'object': {
      const inner = `${indent}  `;
      const fields = shape.fields.map(({ name, required, shape: of, comment }) => {
        const note = comment ? `${inner}/** ${comment.replaceAll('*/', '* /')} */\n` : '';
        const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name}'`;
        return `${note}${inner}${key}${required ? '' : '?'}: ${render(of, inner)};\n`;
      });
      return `{\n${fields.join('')}${indent}}`;
    }
  }
}
