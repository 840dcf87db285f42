import type { EntityManager } from '@mikro-orm/postgresql';
import { type AccountId, isId, type TemplateId, type UserId } from '../../domain/ids.ts';
import { Template } from '../entities/template.ts';
import { query } from '../query.ts';
import { type ListedTable, type Listing, readOne, readPage } from './page.ts';
import { type Person, readPerson, selectPerson } from './people.ts';
import { readRow } from './read-row.ts';
import { type Scope, type SqlCondition, withinScope } from './scope.ts';

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
function visible(scope: Scope): SqlCondition {
  const within = withinScope(scope, 't');
  const shared =
    scope.rows === 'user'
      ? { sql: "t.account_id = ? and t.visibility = 'account_shared'", values: [scope.accountId] }
      : { sql: 'false', values: [] };
  return {
    sql: `(t.visibility = 'public' or (${shared.sql}) or (${within.sql}))`,
    values: [...shared.values, ...within.values],
  };
}

/** The same as `isUsable` of domain/template-image.ts. */
const usable =
  "t.image is not null and (t.status = 'available' or (t.account_id is null and t.image like 'builtin:%' and t.status in ('pending', 'building')))";

const listed: ListedTable = {
  table: 'templates',
  alias: 't',
  key: 'template_id',
  beside: selectPerson('o', 'owner'),
  joins: 'left join users o on o.user_id = t.owner_user_id',
};

/**
 * The template with a name or id, in any status. A name is looked up among the caller's own templates, then the
 * account's, the built-in ones, and other accounts' public ones.
 */
export async function findTemplateByNameOrId(
  em: EntityManager,
  scope: Scope,
  caller: { accountId: AccountId; userId: UserId },
  nameOrId: string,
): Promise<Template | null> {
  const seen = visible(scope);
  const [row] = await query(
    em,
    `select t.* from templates t where ${isId('template', nameOrId) ? 't.template_id' : 't.name'} = ? and ${seen.sql}
      order by t.owner_user_id is not distinct from ? desc, t.account_id is not distinct from ? desc,
               t.account_id is null desc, t.created_at
      limit 1`,
    [nameOrId, ...seen.values, caller.userId, caller.accountId],
  );
  return row ? readRow(em, Template, row) : null;
}

/** The template with its owner. */
export async function findTemplateView(
  em: EntityManager,
  scope: Scope,
  templateId: TemplateId,
): Promise<TemplateView | null> {
  const row = await readOne(em, listed, [{ sql: 't.template_id = ?', values: [templateId] }, visible(scope)]);
  return row && readView(em, row);
}

/** A page of the templates that a caller may see. */
export async function listTemplateViews(
  em: EntityManager,
  scope: Scope,
  filter: TemplateFilter,
  listing: Listing,
): Promise<{ views: TemplateView[]; total: number }> {
  const conditions = [visible(scope)];
  if (filter.status) conditions.push({ sql: 't.status = ?', values: [filter.status] });
  if (filter.visibility) conditions.push({ sql: 't.visibility = ?', values: [filter.visibility] });
  if (filter.name) conditions.push({ sql: 't.name = ?', values: [filter.name] });
  if (filter.usable) conditions.push({ sql: usable, values: [] });
  const { rows, total } = await readPage(em, listed, conditions, listing);
  return { views: rows.map((row) => readView(em, row)), total };
}

function readView(em: EntityManager, row: Record<string, unknown>): TemplateView {
  return { template: readRow(em, Template, row), owner: readPerson(row, 'owner') };
}
