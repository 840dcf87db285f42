import { z } from 'zod';
import { optionalQuery } from './fields.ts';

/** No list gives more at once. */
export const maxPageSize = 100;

const size = () =>
  optionalQuery(z.coerce.number().int().min(1).max(2_000_000_000)).transform((asked) =>
    asked === undefined ? undefined : Math.min(asked, maxPageSize),
  );
const start = () => optionalQuery(z.coerce.number().int().min(0).max(2_000_000_000));

/** Query parameters of every list; spread into the route's query schema. */
export const pagingQuery = {
  page: optionalQuery(z.coerce.number().int().min(1).max(10_000_000)).describe('Default 1'),
  limit: size().describe(`Items on a page; more than ${maxPageSize} are cut to that`),
  page_size: size().describe('Alias of limit'),
  offset: start().describe('Items to pass over; wins over page'),
  skip: start().describe('Alias of offset'),
};

/** Sort direction of a list. */
export const sortOrder = optionalQuery(z.enum(['asc', 'desc'])).describe('Default desc');

type PagingQuery = { [name in keyof typeof pagingQuery]?: number | undefined };

/** A page as a repository needs it. */
export interface Page {
  limit: number;
  offset: number;
}

/** The page a query asks for. */
export function pageOf(query: PagingQuery, defaultLimit: number): Page {
  const limit = query.limit ?? query.page_size ?? defaultLimit;
  return { limit, offset: query.offset ?? query.skip ?? ((query.page ?? 1) - 1) * limit };
}

export const paginationSchema = z
  .object({
    page: z.int().min(1),
    limit: z.int().min(1),
    total: z.int().min(0),
    total_pages: z.int().min(0),
    offset: z.int().min(0),
  })
  .meta({ id: 'Pagination' });

/** What a list tells of its page. */
export function paginationOf(page: Page, total: number): z.output<typeof paginationSchema> {
  return {
    page: Math.floor(page.offset / page.limit) + 1,
    limit: page.limit,
    total,
    total_pages: Math.ceil(total / page.limit),
    offset: page.offset,
  };
}
