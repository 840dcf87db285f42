import { z } from 'zod';
import { type Listing, maxCountedRows } from '../../db/core/page.ts';
import type { Scope } from '../../db/core/scope.ts';
import { AppError } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';
import { optionalNonZeroQuery, optionalQuery } from './fields.ts';

/** The largest page of all lists. */
const maxPageSize = 100;

const size = () =>
  optionalNonZeroQuery(z.coerce.number().int().min(1).max(2_000_000_000)).transform((asked) =>
    asked === undefined ? undefined : Math.min(asked, maxPageSize),
  );
const start = () => optionalNonZeroQuery(z.coerce.number().int().min(0).max(2_000_000_000));

/** Query parameters of a list. Spread them into the route's query schema. @param defaultLimit as for `toListing` */
export function createPagingQuery(defaultLimit: number) {
  return {
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

type PagingQuery = { [name in keyof typeof pagingQuery]?: number | undefined };
type SortingQuery<Column extends string> = { sort_by?: Column | undefined; sort_order?: 'asc' | 'desc' | undefined };

/** The requested page and order. The default order is newest first. */
export function toListing<Column extends string = 'created_at'>(
  query: PagingQuery & SortingQuery<Column>,
  defaultLimit: number,
): Listing<Column | 'created_at'> {
  const limit = query.limit ?? query.page_size ?? defaultLimit;
  const offset = query.offset ?? query.skip ?? ((query.page ?? 1) - 1) * limit;
  return { sortBy: query.sort_by ?? 'created_at', sortOrder: query.sort_order ?? 'desc', limit, offset };
}

export const paginationSchema = z
  .object({
    page: z.int().min(1),
    limit: z.int().min(1),
    total: z.int().min(0).max(maxCountedRows),
    total_pages: z.int().min(0).describe('Of `total`; with `total_is_capped`, there are further pages'),
    offset: z.int().min(0),
    total_is_capped: z.literal(true).optional().describe('There are more items than `total`. Otherwise left out'),
  })
  .meta({ id: 'Pagination' });

/** The page of a reply, and the total number of items. */
export function presentPagination(
  page: { limit: number; offset: number },
  counted: number,
): z.output<typeof paginationSchema> {
  const total = Math.min(counted, maxCountedRows);
  return {
    page: Math.floor(page.offset / page.limit) + 1,
    limit: page.limit,
    total,
    total_pages: Math.ceil(total / page.limit),
    offset: page.offset,
    ...(counted > maxCountedRows && { total_is_capped: true as const }),
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
