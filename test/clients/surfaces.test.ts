import { readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import * as swc from '@swc/core';
import { PythonWithClient } from './installed-python.ts';

const sources = path.resolve(import.meta.dirname, '../../clients/typescript/src');

/** Sorted names of parameters, by method by class. A property has none. */
type Surface = Record<string, Record<string, string[]>>;

/** Classes of both languages. */
const compared = [
  ...['Sandbox', 'Commands', 'CommandHandle', 'Files', 'Pty', 'Terminal', 'Ports', 'Git'],
  ...['Platform', 'Templates', 'ApiKeys', 'UsageReports', 'Webhooks'],
];

/** Parameters with a unit in TypeScript, and words that Python keeps for itself. */
const spellings: Record<string, string> = {
  ...{ import: 'import_', timeout_ms: 'timeout', timeout_seconds: 'timeout', request_timeout_ms: 'request_timeout' },
  ...{
    expires_in_seconds: 'expires_in',
    step_seconds: 'step',
    leave_after_ms: 'leave_after',
    tolerance_seconds: 'tolerance',
  },
  ...{ max_output_length: 'max_output', id: 'sandbox_id' },
};

/** The cancellation of a task in Python, and limits for servers that use hostile agents for many users. */
const onlyTypeScript = ['signal', 'agentLimits', 'maxResultsLength'];

/** What one language has in another form. */
const exceptions: { member: string; reason: string }[] = [
  { member: 'Sandbox.close', reason: 'Python programs close connections' },
  { member: 'Platform.close', reason: 'Python programs close connections' },
  { member: 'Files.read', reason: 'one method for texts, bytes and streams in TypeScript' },
  { member: 'Files.read_bytes', reason: 'one method for texts, bytes and streams in TypeScript' },
  ...['Files.download', 'Files.upload_entries', 'Files.read_archive'].map((member) => ({
    ...{ member, reason: 'progress of one file and parts of folders, for the command line' },
  })),
  { member: 'Terminal.wait', reason: 'takes a listener in Python' },
  { member: 'Sandbox.url', reason: 'an attribute of the object in Python' },
];

test('the clients have the same methods with the same parameters', async () => {
  const python = await PythonWithClient.make();
  try {
    const printed = await python.run([path.join(import.meta.dirname, 'python-surface.py')], {});
    const { sync, async } = JSON.parse(printed) as Record<'sync' | 'async', Surface>;
    const expected = lines(readTypeScript());
    expect(lines(sync)).toEqual(expected);
    expect(lines(async)).toEqual(expected);
  } finally {
    python.remove();
  }
}, 300_000);

/** The compared members, a line each. */
function lines(surface: Surface): string[] {
  const without = new Set(exceptions.map(({ member }) => member));
  return compared
    .flatMap((name) => Object.entries(surface[name]!).map(([member, names]) => [`${name}.${member}`, names] as const))
    .filter(([member]) => !without.has(member))
    .map(([member, names]) => `${member}(${[...new Set(names)].sort().join(', ')})`)
    .sort();
}

function readTypeScript(): Surface {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /^(?!cli).*\.ts$/.test(file),
  );
  const declarations = files.flatMap((file) =>
    swc
      .parseFileSync(path.join(sources, file), { syntax: 'typescript', target: 'es2022' })
      .body.flatMap((item) => (item.type === 'ExportDeclaration' ? [item.declaration] : [item])),
  );
  const types = new Map<string, swc.Declaration>();
  for (const each of declarations) {
    if (each.type === 'TsInterfaceDeclaration' || each.type === 'TsTypeAliasDeclaration')
      types.set(each.id.value, each);
  }
  const surface: Surface = {};
  for (const each of declarations) {
    if (each.type !== 'ClassDeclaration') continue;
    const members: Record<string, string[]> = {};
    surface[each.identifier.value] = members;
    for (const member of each.body) {
      if (member.type !== 'ClassMethod' || member.key.type !== 'Identifier') continue;
      const name = snakeCase(member.key.value);
      const names = member.function.params.flatMap(({ pat }) => namesOf(pat, types));
      members[name] = [...(members[name] ?? []), ...names.map(snakeCase)];
    }
  }
  return surface;
}

/** The fields of an object of options, or else the name of the parameter. */
function namesOf(pattern: swc.Pattern, types: Map<string, swc.Declaration>): string[] {
  const target = pattern.type === 'AssignmentPattern' ? pattern.left : pattern;
  const annotation = 'typeAnnotation' in target && target.typeAnnotation;
  const type = annotation && 'typeAnnotation' in annotation ? annotation.typeAnnotation : undefined;
  const fields = type && fieldsOf(type as swc.TsType, types);
  if (fields) return fields.filter((field) => !onlyTypeScript.includes(field));
  if (target.type === 'ObjectPattern')
    return target.properties.flatMap((each) => ('key' in each ? [keyOf(each.key)] : []));
  return target.type === 'Identifier' ? [target.value] : [];
}

function fieldsOf(type: swc.TsType, types: Map<string, swc.Declaration>): string[] | undefined {
  if (type.type === 'TsTypeLiteral') return type.members.flatMap((each) => ('key' in each ? [keyOf(each.key)] : []));
  if (type.type === 'TsIntersectionType') return type.types.flatMap((each) => fieldsOf(each, types) ?? []);
  if (type.type !== 'TsTypeReference' || type.typeName.type !== 'Identifier') return undefined;
  const { value: name } = type.typeName;
  if (name === 'Pick') {
    const chosen = JSON.stringify(type.typeParams!.params[1]);
    return [...chosen.matchAll(/"type":"StringLiteral"[^}]*\}?,"value":"(\w+)"/g)].map(([, field]) => field!);
  }
  if (name === 'Partial') return fieldsOf(type.typeParams!.params[0]!, types);
  const declared = types.get(name);
  if (declared?.type === 'TsTypeAliasDeclaration') return fieldsOf(declared.typeAnnotation, types);
  if (declared?.type !== 'TsInterfaceDeclaration') return undefined;
  const own = declared.body.body.flatMap((each) => ('key' in each ? [keyOf(each.key)] : []));
  const inherited = declared.extends.flatMap(({ span, expression, typeArguments }) => {
    if (expression.type !== 'Identifier') return [];
    const parent = { type: 'TsTypeReference' as const, span, typeName: expression };
    return fieldsOf({ ...parent, ...(typeArguments && { typeParams: typeArguments }) }, types) ?? [];
  });
  return [...own, ...inherited];
}

const keyOf = (key: { type: string; value?: unknown }) => String(key.value);

function snakeCase(name: string): string {
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return spellings[snake] ?? snake;
}
