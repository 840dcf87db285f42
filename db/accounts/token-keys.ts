import type { EntityManager } from '@mikro-orm/postgresql';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';

/**
 * From now on all replicas sign access tokens with a new key. The keys themselves are derived from their ids.
 * @param options.endSessions also ends all existing sessions; otherwise they work until they expire
 * @returns the new key's id, and the number of ended sessions
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
