import type { FastifySchemaCompiler } from 'fastify';
import type { z } from 'zod';
import { AppError, type ErrorDetail } from '../../domain/errors.ts';
import { describeIssue } from '../schemas/issue-texts.ts';
import { pagingQuery } from '../schemas/lists.ts';
import { detailsText, maxDetails } from './errors.ts';

/**
 * Checks a part of a request with its zod schema, and names the wrong fields with the reasons, without their values.
 */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> =
  ({ schema, httpPart }) =>
  (data: unknown) => {
    const parsed = schema.safeParse(data, { error: describeIssue });
    if (parsed.success) return { value: parsed.data };
    const { issues } = parsed.error;
    const isQuery = httpPart === 'querystring';
    const details = issues
      .slice(0, maxDetails)
      .flatMap((issue) => toDetails(isQuery ? ofParameter(issue, data) : issue));
    const paging = isQuery && details.every((item) => Object.hasOwn(pagingQuery, item.path));
    const text = detailsText(details, { total: Math.max(details.length, issues.length), whole: parts[httpPart ?? ''] });
    return { error: new AppError(paging ? 'invalid_pagination' : 'validation_failed', text, { details }) };
  };

/** The names of the parts of a request in messages. */
const parts: Readonly<Record<string, string>> = { body: 'The body', querystring: 'The query', headers: 'The headers' };

/** A query has no nested paths, so an error within a list or an object of a parameter is reported for the parameter. */
function ofParameter(issue: z.core.$ZodIssue, query: unknown): z.core.$ZodIssue {
  const path = issue.path.slice(0, 1);
  const isRepeated = Array.isArray((query as Record<PropertyKey, unknown> | null)?.[path[0] ?? '']);
  return { ...issue, path, ...(isRepeated && { message: 'must be given once' }) };
}

/** For a union, reports the errors of the best matching member. */
function toDetails(issue: z.core.$ZodIssue): ErrorDetail[] {
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const closest = issue.errors.reduce((best, member) => (depth(member) > depth(best) ? member : best));
    if (depth(closest) > 0) {
      return closest.flatMap(toDetails).map((item) => ({ ...item, path: dotted([...issue.path, item.path]) }));
    }
  }
  return [{ path: dotted(issue.path), reason: issue.message }];
}

const depth = (issues: z.core.$ZodIssue[]) => Math.max(0, ...issues.map((issue) => issue.path.length));
const dotted = (path: PropertyKey[]) => path.map(String).join('.');
