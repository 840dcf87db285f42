import { z } from 'zod';
import type { Person } from '../../db/accounts/people.ts';
import { readEmailAddress } from '../../domain/accounts/email-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { Id, IdKind } from '../../domain/ids.ts';
import { parseTime } from '../../domain/usage/metrics-range.ts';

/**
 * An id from a caller, typed by its kind. A text of another form is not refused here; a lookup finds nothing for it.
 */
export const givenId = <Kind extends IdKind>(_kind: Kind, schema = z.string()) =>
  schema as unknown as z.ZodType<Id<Kind>, string>;

/** A time in a reply, sent as RFC 3339 in UTC. */
export const time = () => z.date();

/** An optional field of a request. Null counts as absent. */
export function optional<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** An optional field of a request with a default. Null counts as absent. */
export function withDefault<T extends z.ZodType>(schema: T, fallback: z.output<T>) {
  return schema
    .nullish()
    .meta({ default: fallback })
    .transform((value) => value ?? fallback) as z.ZodPipe<
    z.ZodOptional<z.ZodNullable<T>>,
    z.ZodTransform<z.output<T>, z.output<T> | null | undefined>
  >;
}

/** As `optional`, for fields that typed clients send as `""` or `0` when they are not set. */
export function optionalNonZero<T extends z.ZodType>(schema: T) {
  return z
    .preprocess(unlessZero, schema.nullish())
    .optional()
    .transform((value) => value ?? undefined);
}

/** As `withDefault`, for fields that typed clients send as `""` or `0` when they are not set. */
export function withDefaultNonZero<T extends z.ZodType>(schema: T, fallback: z.output<T>) {
  return z
    .preprocess(unlessZero, schema.nullish())
    .optional()
    .meta({ default: fallback })
    .transform((value) => value ?? fallback);
}

function unlessZero(value: unknown): unknown {
  return value === '' || value === 0 ? undefined : value;
}

/** An optional query parameter. An empty text and the word `null` count as absent. */
export function optionalQuery<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === '' || value === 'null' ? undefined : value), schema.optional()).optional();
}

/** As `optionalQuery`, for numbers that typed clients send as `0` when they are not set. */
export function optionalNonZeroQuery<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === '0' ? undefined : value), optionalQuery(schema)).optional();
}

/** A body with only optional fields may be absent. */
export function optionalBody<T extends z.ZodObject>(schema: T) {
  return z.preprocess((body) => body ?? {}, schema);
}

/**
 * A record or list whose members are counted before validation, because a thousand invalid members would create a
 * thousand issues.
 */
export function counted<T extends z.ZodType>(max: number, members: string, schema: T) {
  return z.preprocess((value, context) => {
    const count = value !== null && typeof value === 'object' ? Object.keys(value).length : 0;
    if (count <= max) return value;
    context.addIssue({ code: 'custom', message: `must have at most ${max} ${members}` });
    return z.NEVER;
  }, schema);
}

/** `true`, `1` or `yes`, or `false`, `0` or `no`, in a query. */
export const queryFlag = () =>
  optionalQuery(z.enum(['true', 'false', '1', '0', 'yes', 'no'])).transform((word) =>
    word === undefined ? undefined : word === 'true' || word === '1' || word === 'yes',
  );

/** A positive number in the range of a Postgres integer. */
export const positiveInt = () => z.int().min(1).max(2_147_483_647);

/** The pattern of a name for the document: printable, and not blank unless blank is allowed. */
export const namePattern = '^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$';
const blankNamePattern = '^[^\\x00-\\x1f\\x7f-\\x9f]*$';

/** A name. The domain checks its rules and refuses it as `invalid_name`. The schema only documents them. */
export const nameField = (maxLength: number, { mayBeBlank = false } = {}) =>
  z
    .string()
    .max(256)
    .meta(mayBeBlank ? { maxLength, pattern: blankNamePattern } : { minLength: 1, maxLength, pattern: namePattern });

/** Free text of a person. */
export const description = () => z.string().max(65_536);

/** Bytes of a body with the longest description, with every character escaped. */
export const bodyBytesWithDescription = 512 * 1024;

/** A time in a query. */
export const timeQuery = () =>
  optionalQuery(
    z
      .string()
      .max(64)
      .transform((text, context) => {
        const parsed = parseTime(text);
        if (parsed) return parsed;
        context.addIssue({ code: 'custom', message: 'must be an ISO 8601 time, Unix seconds or Unix milliseconds' });
        return z.NEVER;
      }),
  );

/** Reads an e-mail address of a request's body. @throws {AppError} `validation_failed` */
export function readEmailField(field: string, text: string): string {
  const email = readEmailAddress(text);
  if (email !== null) return email;
  const reason = 'must be an e-mail address with ASCII characters before the @';
  throw new AppError('validation_failed', `${field} ${reason}`, { details: [{ path: field, reason }] });
}

/** A person in replies to others, such as the owner of a sandbox, a project or a key. */
export const personSchema = z
  .object({ user_id: z.string(), username: z.string(), display_name: z.string(), email: z.string() })
  .meta({ id: 'Person' });

export function presentPerson(person: Person): z.output<typeof personSchema> {
  return {
    user_id: person.userId,
    username: person.username,
    display_name: person.displayName,
    email: person.email,
  };
}
