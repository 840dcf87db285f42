import type { EntityManager } from '@mikro-orm/postgresql';

export interface DueStart {
  id: string;
  workflowType: string;
  workflowId: string;
  input: Record<string, unknown>;
}

/** Seconds until a start that failed is tried again: 1, 2, 4 … 60. */
const backOff = "least(60, power(2, attempts)) * interval '1 second'";

/**
 * Takes up to `limit` due starts and puts their next try off, so that several relays never hold the same one at once
 * and a relay that dies gives them back by itself.
 */
export async function takeDueStarts(em: EntityManager, limit: number): Promise<DueStart[]> {
  const rows = (await em.fork().execute(
    `update outbox set attempts = attempts + 1, not_before = now() + ${backOff}
      where id in (select id from outbox where not_before <= now() order by id limit ? for update skip locked)
      returning id, workflow_type, workflow_id, input`,
    [limit],
  )) as { id: string; workflow_type: string; workflow_id: string; input: Record<string, unknown> }[];
  return rows.map((row) => ({
    id: String(row.id),
    workflowType: row.workflow_type,
    workflowId: row.workflow_id,
    input: row.input,
  }));
}

/** Removes what has been started. */
export async function removeStarted(em: EntityManager, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await em.fork().execute('delete from outbox where id = any(?::bigint[])', [`{${ids.join(',')}}`]);
}

/** The caller that started the workflow itself needs no relay. */
export async function removeStartOf(em: EntityManager, workflowId: string): Promise<void> {
  await em.fork().execute('delete from outbox where workflow_id = ?', [workflowId]);
}
