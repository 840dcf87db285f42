import { z } from 'zod';

/** An empty variable counts as unset, because compose files and unit files leave unused variables empty. */
export const emptyIsUnset = (value: unknown) => (value === '' ? undefined : value);
export const text = () => z.preprocess(emptyIsUnset, z.string().optional());
export const textOr = (fallback: string) => z.preprocess(emptyIsUnset, z.string().default(fallback));
export const port = (fallback: number) =>
  z.preprocess(emptyIsUnset, z.coerce.number().int().min(0).max(65535).default(fallback));
export const positive = (fallback: number) =>
  z.preprocess(emptyIsUnset, z.coerce.number().positive().default(fallback));
export const positiveOrUnset = () => z.preprocess(emptyIsUnset, z.coerce.number().positive().optional());
export const whole = (fallback: number) => z.preprocess(emptyIsUnset, z.coerce.number().int().min(0).default(fallback));
export const flag = (fallback: boolean) =>
  z.preprocess(
    emptyIsUnset,
    z
      .enum(['true', 'false', '1', '0'])
      .transform((value) => value === 'true' || value === '1')
      .default(fallback),
  );

/** `name=item,item;name=…` */
export const listsByName = (isItem: (item: string) => boolean, message: string) =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((lists) =>
        lists
          .split(';')
          .filter((list) => list.trim() !== '')
          .map((list) => list.split('=').map((part) => part.trim())),
      )
      .refine(
        (lists) => lists.every((parts) => parts.length === 2 && parts[0] !== '' && words(parts[1]!).every(isItem)),
        message,
      )
      .transform(
        (lists): Record<string, string[]> => Object.fromEntries(lists.map(([name, items]) => [name!, words(items!)])),
      ),
  );
export const words = (list: string) => list.split(',').map((word) => word.trim());

/** Comma-separated IPv4 networks, as CIDR. */
export const networks = () =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((list) => (list === '' ? [] : words(list)))
      .pipe(z.array(z.cidrv4())),
  );
/** More than 0, at most 1. */
export const share = (fallback: number) =>
  z.preprocess(emptyIsUnset, z.coerce.number().positive().max(1).default(fallback));
/** A DNS label (RFC 1123), as Kubernetes requires in names. */
export const isLabel = (name: string | undefined) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name ?? '');

/** `20000-20127`, or `none`. */
export const portRange = z
  .string()
  .regex(/^(none|\d{1,5}-\d{1,5})$/, 'must be first-last, or none')
  .transform((text) => {
    if (text === 'none') return null;
    const [first, last] = text.split('-').map(Number) as [number, number];
    return { first, last };
  })
  .refine((range) => range === null || (range.first >= 1 && range.last <= 65535 && range.first <= range.last), {
    message: 'must be a range within 1-65535',
  });

/** A JSON object with texts, such as `{"name": "value"}`. */
export const textsByName = () =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('{}')
      .transform((json, context): unknown => {
        try {
          return JSON.parse(json);
        } catch {
          context.addIssue({ code: 'custom', message: 'must be JSON' });
          return z.NEVER;
        }
      })
      .pipe(z.record(z.string(), z.string())),
  );
