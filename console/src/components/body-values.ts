import type { FormField } from '../api/form-field.ts';

/** What stands in a field: a text, a switch, or the parts of a group, of rows or of pairs. */
export type Value = unknown;
export type Values = Readonly<Record<string, Value>>;

/** A name with a value, as they stand in a form. The name may be empty or twice in it. */
export type Pair = readonly [name: string, value: string];

/**
 * The body of a change: what differs from the values of before.
 * @param before the values of the object; empty for a new one
 */
export function changesOf(fields: readonly FormField[], before: Values, values: Values): Record<string, unknown> {
  const [old, given] = [bodyOf(fields, before), bodyOf(fields, values)];
  const changed = Object.entries(given).filter(([name, value]) => !isSame(value, old[name]));
  const emptied = Object.keys(old).filter((name) => !(name in given));
  return {
    ...Object.fromEntries(changed),
    ...Object.fromEntries(emptied.map((name) => [name, emptyFor(old[name])])),
  };
}

/** What a body says for a field whose value was removed. */
function emptyFor(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return typeof value === 'number' ? null : '';
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** The body of the fields that have a value. */
function bodyOf(fields: readonly FormField[], values: Values): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const value = toBody(field, values[field.name]);
    if (value !== undefined) body[field.name] = value;
  }
  return body;
}

function toBody(field: FormField, value: Value): unknown {
  if (value === undefined || value === null || value === '') return undefined;
  switch (field.kind) {
    case 'number':
      return Number(value);
    case 'texts': {
      const texts = Array.isArray(value) ? value : String(value).split('\n');
      const given = texts.map((text) => String(text).trim()).filter((text) => text !== '');
      return given.length > 0 ? given : undefined;
    }
    case 'map': {
      const pairs = Array.isArray(value) ? (value as Pair[]) : Object.entries(value as Values);
      return Object.fromEntries(pairs.filter(([name]) => name !== ''));
    }
    case 'group': {
      const group = bodyOf(field.fields!, value as Values);
      return Object.keys(group).length > 0 ? group : undefined;
    }
    case 'rows': {
      const rows = (value as Values[]).map((row) => bodyOf(field.fields!, row));
      return rows.length > 0 ? rows : undefined;
    }
    default:
      return value;
  }
}
