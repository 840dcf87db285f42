import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type Scope, withinScope } from '../core/scope.ts';
import { Sandbox } from './sandbox.entity.ts';

/** The sandboxes of the list that a caller may see, by id, without deleted ones. */
export async function findSandboxes(
  em: EntityManager,
  scope: Scope,
  sandboxIds: readonly SandboxId[],
): Promise<Map<string, Sandbox>> {
  const mine = withinScope(scope, 's');
  const rows = await query<EntityRow<Sandbox>>(
    em.fork(),
    `select s.* from sandboxes s
        where s.sandbox_id in (select jsonb_array_elements_text(?::jsonb)) and s.deleted_at is null and ${mine.sql}`,
    [JSON.stringify(sandboxIds), ...mine.values],
  );
  return new Map(rows.map((row) => [row.sandbox_id as string, readRow(em, Sandbox, row)]));
}
