import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import { type AccountId, isId, type TemplateId, type UserId } from '../../domain/ids.ts';
import { type Person, type PersonRow, readPerson, selectPerson } from '../accounts/people.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type Scope, type SqlCondition, withinScope } from '../core/scope.ts';
import { Template } from './template.entity.ts';

export interface TemplateView {
  template: Template;
  /** Null for built-in templates. */
  owner: Person | null;
}

export interface TemplateFilter {
  status?: Template['status'] | undefined;
  visibility?: Template['visibility'] | undefined;
  /** The exact name. */
  name?: string | undefined;
  /** Only templates from which a sandbox can be made now. */
  usable?: boolean | undefined;
}

/** The templates within the scope, and also public ones and those shared in the account. */
function visible(scope: Scope) {
  const within = withinScope(scope, 't');
  const shared =
    scope.rows === 'user'
      ? { sql: "t.account_id = ? and t.visibility = 'account_shared'" as const, values: [scope.accountId] }
      : { sql: 'false' as const, values: [] };
  return {
    sql: `(t.visibility = 'public' or (${shared.sql}) or (${within.sql}))` as const,
    values: [...shared.values, ...within.values],
  };
}

/** The same as `isUsable` of domain/templates/image.ts. */
const usable =
  "t.image is not null and (t.status = 'available' or (t.account_id is null and t.image like 'builtin:%' and t.status in ('pending', 'building')))";

const listed: ListedTable = {
  table: 'templates',
  alias: 't',
  key: ['template_id'],
  beside: selectPerson('o', 'owner'),
  joins: 'left join users o on o.user_id = t.owner_user_id',
};

/**
 * The template with an id, a name or `<user name>/<name>`, in any status. A bare name means a built-in template, then a
 * public one, then one of the caller's own. It never means a template of another user, who could otherwise choose what
 * the caller's sandboxes run.
 */
export async function findTemplateByNameOrId(
  em: EntityManager,
  scope: Scope,
  caller: { accountId: AccountId; userId: UserId },
  nameOrId: string,
): Promise<Template | null> {
  const seen = visible(scope);
  const named = namedBy(caller, nameOrId);
  const [row] = await query<EntityRow<Template>>(
    em,
    `select t.* from templates t where ${named.sql} and ${seen.sql}
      order by t.account_id is null desc, t.visibility = 'public' desc, t.created_at, t.template_id
      limit 1`,
    [...named.values, ...seen.values],
  );
  return row ? readRow(em, Template, row) : null;
}

/** User names have no slash and are unique in their account. */
function namedBy(caller: { accountId: AccountId; userId: UserId }, nameOrId: string) {
  if (isId('template', nameOrId)) return { sql: 't.template_id = ?' as const, values: [nameOrId] };
  const [owner, name, ...more] = nameOrId.split('/');
  if (name === undefined) {
    return {
      sql: "t.name = ? and (t.account_id is null or t.visibility = 'public' or t.owner_user_id = ?)" as const,
      values: [nameOrId, caller.userId],
    };
  }
  if (more.length > 0) return { sql: 'false' as const, values: [] };
  return {
    sql: `t.name = ? and t.owner_user_id = (select user_id from users where account_id = ? and lower(username) = lower(?))` as const,
    values: [name, caller.accountId, owner],
  };
}

/**
 * @throws {AppError} `template_name_taken` when a built-in template or a public one of another account has the name. The
 * index `templates_name` refuses other templates of the same account
 */
export async function requireUnreservedName(em: EntityManager, name: string, accountId: AccountId): Promise<void> {
  const [row] = await query(
    em,
    `select 1 from templates where name = ? and (account_id is null or (visibility = 'public' and account_id <> ?)) limit 1`,
    [name, accountId],
  );
  if (row) throw new AppError('template_name_taken', 'A built-in or public template has this name');
}

/** The template with its owner. */
export async function findTemplateView(
  em: EntityManager,
  scope: Scope,
  templateId: TemplateId,
): Promise<TemplateView | null> {
  const row = await readOne<ViewRow>(em, listed, [{ sql: 't.template_id = ?', values: [templateId] }, visible(scope)]);
  return row && readView(em, row);
}

/** A page of the templates that a caller may see. */
export async function listTemplateViews(
  em: EntityManager,
  scope: Scope,
  filter: TemplateFilter,
  listing: Listing,
): Promise<ListPage & { views: TemplateView[] }> {
  const conditions: SqlCondition[] = [visible(scope)];
  if (filter.status) conditions.push({ sql: 't.status = ?', values: [filter.status] });
  if (filter.visibility) conditions.push({ sql: 't.visibility = ?', values: [filter.visibility] });
  if (filter.name) conditions.push({ sql: 't.name = ?', values: [filter.name] });
  if (filter.usable) conditions.push({ sql: usable, values: [] });
  const { rows, ...page } = await readPage<ViewRow>(em, listed, conditions, listing);
  return { views: rows.map((row) => readView(em, row)), ...page };
}

type ViewRow = EntityRow<Template> & PersonRow<'owner'>;

function readView(em: EntityManager, row: ViewRow): TemplateView {
  return { template: readRow(em, Template, row), owner: readPerson(row, 'owner') };
}
