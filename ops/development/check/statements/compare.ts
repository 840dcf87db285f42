import type { Description } from './describe.ts';
import type { DeclaredRow, FieldKind, GivenValue } from './source.ts';

const kinds: Record<string, FieldKind> = {
  boolean: 'boolean',
  smallint: 'number',
  integer: 'number',
  oid: 'number',
  real: 'number',
  'double precision': 'number',
  // Strings, because they may have more digits than a number of JavaScript.
  bigint: 'string',
  numeric: 'string',
  // MikroORM leaves times as they are.
  'timestamp with time zone': 'string',
  'timestamp without time zone': 'string',
  date: 'string',
  interval: 'string',
};

/** What JavaScript gets for a value of a type of Postgres. Null: any value, of JSON. */
export function toFieldKind(type: string): FieldKind | null {
  if (type === 'json' || type === 'jsonb') return null;
  if (type.endsWith('[]')) return 'array';
  return kinds[type] ?? 'string';
}

/** The differences between a declared row and the columns of its statement. */
export function differences(row: DeclaredRow, { columns }: Description): string[] {
  const found: string[] = [];
  const names = columns.map(({ name }) => name);
  for (const name of new Set(names.filter((each, index) => names.indexOf(each) !== index))) {
    found.push(`the column ${name} is selected twice`);
  }
  for (const [name, field] of row) {
    if (!names.includes(name) && !field.isOptional) found.push(`${name} is declared but not selected`);
  }
  for (const { name, type, mayBeNull } of columns) {
    const field = row.get(name);
    if (!field) {
      found.push(`${name} is selected but not declared`);
      continue;
    }
    if (field.kinds.has('unknown')) continue;
    const kind = toFieldKind(type);
    if (kind && [...field.kinds].some((declared) => declared !== kind)) {
      found.push(`${name} is ${type}, which arrives as ${kind}, but is declared as ${field.type()}`);
    }
    if (mayBeNull && !field.mayBeNull) found.push(`${name} may be null, but is declared as ${field.type()}`);
  }
  return found;
}

/** The columns of a statement without a declared row, apart from those that only make rows, as in `returning 1`. */
export function unreadColumns({ columns }: Description): string[] {
  const named = columns.filter(({ name, type }) => name !== '?column?' && type !== 'void');
  return named.map(({ name }) => `${name} is selected but not declared`);
}

/** The differences between the values of a call and the parameters of its statement. */
export function wrongValues(values: readonly GivenValue[], { parameters }: Description): string[] {
  if (values.length !== parameters.length) {
    return [`${parameters.length} values are wanted, but ${values.length} are given`];
  }
  return values.flatMap(({ kinds }, index) => {
    const type = parameters[index]!;
    // Values become literals of the statement. Postgres converts those of texts, but not these.
    const isWrong =
      (kinds.has('number') && toFieldKind(type) !== 'number' && type !== 'bigint' && type !== 'numeric') ||
      (kinds.has('boolean') && type !== 'boolean');
    return isWrong ? [`the value ${index + 1} must be ${type}, but may be ${[...kinds].join(' or ')}`] : [];
  });
}
