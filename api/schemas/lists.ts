import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Listing, type ListPage, maxCountedRows } from '../../db/core/page.ts';
import type { Scope } from '../../db/core/scope.ts';
import { AppError } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { optionalNonZeroQuery, optionalQuery } from './fields.ts';

/** The largest page of all lists. */
const maxPageSize = 100;

const size = () =>
  optionalNonZeroQuery(z.coerce.number().int().min(1).max(2_000_000_000)).transform((asked) =>
    asked === undefined ? undefined : Math.min(asked, maxPageSize),
  );
const start = () => optionalNonZeroQuery(z.coerce.number().int().min(0).max(2_000_000_000));

/** The `limit` of a list without pages. A larger one is cut to the maximum. */
export const cutLimit = (defaultLimit: number, max: number) =>
  optionalNonZeroQuery(z.coerce.number().int().min(1).max(2_000_000_000))
    .transform((asked) => Math.min(asked ?? defaultLimit, max))
    .describe(`Default ${defaultLimit}; more than ${max} are cut to that`);

/** Query parameters of a list. Spread them into the route's query schema. @param defaultLimit as for `toListing` */
export function createPagingQuery(defaultLimit: number) {
  return {
    cursor: optionalQuery(z.string().max(4096)).describe(
      '`next_cursor` of the page before, with the same filters and order; takes precedence over page and offset',
    ),
    page: optionalNonZeroQuery(z.coerce.number().int().min(1).max(10_000_000)).describe('Default 1'),
    limit: size().describe(`Items on a page, default ${defaultLimit}; more than ${maxPageSize} are cut to that`),
    page_size: size().describe('Alias of limit'),
    offset: start().describe('The number of items to skip; takes precedence over page'),
    skip: start().describe('Alias of offset'),
  };
}

/** Query parameters of most lists. */
export const pagingQuery = createPagingQuery(50);

/** Query parameters of a sortable list, in addition to `pagingQuery`. @param columns the columns to sort by */
export function sortingQuery<Column extends string>(columns: readonly Column[]) {
  return {
    sort_by: optionalQuery(z.enum(columns)).describe('Default created_at'),
    sort_order: optionalQuery(z.enum(['asc', 'desc'])).describe('Default desc'),
  };
}

type PagingQuery = { [name in keyof typeof pagingQuery]?: z.output<(typeof pagingQuery)[name]> };
type SortingQuery<Column extends string> = { sort_by?: Column | undefined; sort_order?: 'asc' | 'desc' | undefined };

/** A request for a page of a list. */
type ListRequest<Query> = Pick<FastifyRequest, 'routeOptions' | 'params' | 'scope'> & { query: Query };

/** The requested page, and the cursor for the page after it. */
interface RequestedList<Column extends string> extends Listing<Column> {
  cursorAfter(page: ListPage): string | null;
}

/**
 * The requested page and order. The default order is newest first.
 * @throws {AppError} `invalid_pagination` when the cursor is not one of this list
 */
export function toListing<Column extends string = 'created_at'>(
  { listCursors }: Pick<ApiDependencies, 'listCursors'>,
  request: ListRequest<PagingQuery & SortingQuery<Column>>,
  defaultLimit: number,
): RequestedList<Column | 'created_at'> {
  const { query } = request;
  const limit = query.limit ?? query.page_size ?? defaultLimit;
  const list = identifyList(request);
  const start = query.cursor === undefined ? null : listCursors.open(list, query.cursor);
  if (query.cursor !== undefined && !start) {
    const reason = 'must be next_cursor of a page of this list, with the same filters and order';
    throw new AppError('invalid_pagination', `cursor ${reason}`, { details: [{ path: 'cursor', reason }] });
  }
  const offset = start?.offset ?? query.offset ?? query.skip ?? ((query.page ?? 1) - 1) * limit;
  return {
    ...{ sortBy: query.sort_by ?? 'created_at', sortOrder: query.sort_order ?? 'desc', limit, offset },
    after: start?.after ?? null,
    cursorAfter: ({ next }) => next && listCursors.make(list, { after: next, offset: offset + limit }),
  };
}

/** The list of a request: its address, its rows, its filters and its order. */
function identifyList({ routeOptions, params, scope, query }: ListRequest<object>): string {
  const asked = Object.entries(query).filter(
    ([name, value]) => value !== undefined && !Object.hasOwn(pagingQuery, name),
  );
  return JSON.stringify([routeOptions.url, params, scope, asked.sort(([a], [b]) => (a < b ? -1 : 1))]);
}

export const paginationSchema = z
  .object({
    page: z.int().min(1),
    limit: z.int().min(1),
    total: z.int().min(0).max(maxCountedRows),
    total_pages: z.int().min(0).describe('Of `total`; with `total_is_capped`, there are further pages'),
    offset: z.int().min(0),
    total_is_capped: z.literal(true).optional().describe('There are more items than `total`. Otherwise left out'),
    next_cursor: z.string().nullable().describe('`cursor` of the next page. Null: this is the last page'),
  })
  .meta({ id: 'Pagination' });

/** The page of a reply, and the total number of items. */
export function presentPagination(list: RequestedList<string>, page: ListPage): z.output<typeof paginationSchema> {
  const total = Math.min(page.total, maxCountedRows);
  return {
    page: Math.floor(list.offset / list.limit) + 1,
    limit: list.limit,
    total,
    total_pages: Math.ceil(total / list.limit),
    offset: list.offset,
    ...(page.total > maxCountedRows && { total_is_capped: true as const }),
    next_cursor: list.cursorAfter(page),
  };
}

/** The value for all accounts. */
export const everyAccount = 'all';

/** Query parameter of lists that admins may request for other accounts. Spread it into the route's query schema. */
export const accountQuery = {
  account_id: optionalQuery(z.string().max(64)).describe(
    `Another account, for admins only; \`${everyAccount}\` means all accounts`,
  ),
};

/**
 * Checks a filter by owner. Account root users may use it for any user, and other users only for themselves.
 * @throws {AppError} `root_required`
 */
export function ownerFilter(scope: Scope, userId: UserId | undefined): UserId | undefined {
  if (userId !== undefined && scope.rows === 'user' && userId !== scope.userId) {
    throw new AppError('root_required', 'Only an account root user may see objects of other users');
  }
  return userId;
}
