import type { z } from 'zod';

/**
 * Why zod refuses a value, as the end of a sentence that begins with the name of the field. It never repeats the value.
 * Schemas with a text of their own have it in the same form. Pass it as `error` of a parse.
 */
export function describeIssue(issue: z.core.$ZodRawIssue): string {
  const isMissing = issue.input === undefined;
  switch (issue.code) {
    case 'invalid_type':
      if (isMissing) return 'is required';
      return `must be ${types[issue.expected as string] ?? 'of another type'}`;
    case 'invalid_value':
      if (isMissing) return 'is required';
      return `must be ${oneOf(issue.values.map(String))}`;
    case 'invalid_union':
      return isMissing ? 'is required' : describeUnion(issue);
    case 'too_big':
      return `must ${bound(issue.origin, Number(issue.maximum), issue.inclusive ? 'at most' : 'less than')}`;
    case 'too_small':
      if (issue.minimum === 1 && issue.origin in counts) return 'must not be empty';
      return `must ${bound(issue.origin, Number(issue.minimum), issue.inclusive ? 'at least' : 'greater than')}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return describeFormat(issue);
    case 'invalid_key':
      return `is a name that ${issue.issues.map(({ message }) => message).join(' and ')}`;
    case 'unrecognized_keys':
      return `must not have ${oneOf(issue.keys)}`;
    default:
      return 'is not valid';
  }
}

const types: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
  date: 'a time',
};

/** What is counted of a value that has a size. */
const counts: Readonly<Record<string, [one: string, many: string]>> = {
  string: ['character', 'characters'],
  array: ['item', 'items'],
};

function bound(origin: string, limit: number, how: string): string {
  const counted = counts[origin];
  return counted ? `have ${how} ${limit} ${counted[limit === 1 ? 0 : 1]}` : `be ${how} ${limit}`;
}

/** A union whose members refuse the value itself, or whose discriminator has no member. */
function describeUnion({ errors = [], options }: { errors?: z.core.$ZodIssue[][]; options?: unknown }): string {
  if (Array.isArray(options) && options.length > 0) return `must be ${oneOf(options.map(String))}`;
  const reasons = errors.map((issues) => issues[0]?.message ?? '');
  const allowed = reasons.map((reason) => /^must be (.+)$/.exec(reason)?.[1]);
  return allowed.includes(undefined) ? oneOf(reasons) : `must be ${oneOf(allowed as string[])}`;
}

function describeFormat(issue: { format: string; prefix?: string; suffix?: string; includes?: string }): string {
  switch (issue.format) {
    case 'starts_with':
      return `must start with ${issue.prefix}`;
    case 'ends_with':
      return `must end with ${issue.suffix}`;
    case 'includes':
      return `must contain ${issue.includes}`;
    case 'regex':
      return 'has the wrong form';
    default:
      return `must be ${issue.format}`;
  }
}

/** `a`, `a or b`, `a, b or c`. */
function oneOf(values: readonly string[]): string {
  const last = values.at(-1) ?? '';
  return values.length < 2 ? last : `${values.slice(0, -1).join(', ')} or ${last}`;
}
