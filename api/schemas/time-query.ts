import { z } from 'zod';
import { parseTime } from '../../domain/usage/metrics-range.ts';
import { optionalQuery } from './fields.ts';

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
