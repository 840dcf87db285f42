import { z } from 'zod';
import { type AskedRange, parseDurationSeconds } from '../../../domain/usage/metrics-range.ts';
import { optionalQuery, timeQuery } from '../../schemas/fields.ts';

const time = (defaultText: string) =>
  timeQuery().describe(`ISO 8601, Unix seconds or milliseconds; default ${defaultText}; swapped bounds are put right`);

const step = optionalQuery(
  z
    .string()
    .max(64)
    .transform((text, context) => {
      const seconds = parseDurationSeconds(text);
      if (seconds !== null) return seconds;
      context.addIssue({
        code: 'custom',
        message: 'must be seconds, or a duration such as 5s, 1m30s or 1h, up to 7 days',
      });
      return z.NEVER;
    }),
).describe(
  'Seconds, or a duration such as 5s, 1m30s, 1h; default 5. A longer step is used if the reply would be too long',
);

/** Query of both routes on metrics. */
export const metricsQuery = z.object({ start: time('5 minutes ago'), end: time('now'), step });

export function askedRange(query: z.output<typeof metricsQuery>): AskedRange {
  return { start: query.start, end: query.end, stepSeconds: query.step };
}
