import type { EntityManager } from '@mikro-orm/postgresql';
import { recordAudit } from '../accounts/audit-events.ts';
import { reviveEntries } from '../core/outbox.ts';

/** Schedules dead entries of the outbox again, all of them or one. @returns their number */
export function retryDeadLetters(em: EntityManager, id: string | null): Promise<number> {
  return em.fork().transactional(async (tx) => {
    const retried = await reviveEntries(tx, id);
    if (retried > 0) await recordAudit(tx, { accountId: null, objectId: id, before: null, after: { retried } });
    return retried;
  });
}
