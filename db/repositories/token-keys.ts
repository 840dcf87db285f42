import type { EntityManager } from '@mikro-orm/postgresql';
import { newId } from '../new-id.ts';
import { query } from '../query.ts';

/**
 * Has access tokens signed with a new key from now on, by each replica. The keys themselves are derived from their ids.
 * @param options.endSessions also end all that was signed before; else it works until it expires
 * @returns the new key's id, and how many sessions ended
 */
export async function rotateTokenKeys(
  em: EntityManager,
  { endSessions }: { endSessions: boolean },
): Promise<{ keyId: string; endedSessions: number }> {
  const keyId = newId('tokenKey');
  return em.fork().transactional(async (tx) => {
    await query(tx, 'insert into token_keys (key_id) values (?)', [keyId]);
    const ended = endSessions ? await query(tx, 'delete from sessions returning 1') : [];
    return { keyId, endedSessions: ended.length };
  });
}
