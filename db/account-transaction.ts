import type { EntityManager } from '@mikro-orm/postgresql';
import pLimit, { type LimitFunction } from 'p-limit';

/** Fewer than the connections of a pool, so that no account holds all of them. */
const transactionsPerAccount = 2;

const turns = new Map<string, { limit: LimitFunction; users: number }>();

/**
 * A transaction on behalf of a caller. Such transactions lock rows of the caller's account, so many at once wait for each
 * other. They wait here, where waiting takes no connection of the pool from the requests of other accounts.
 */
export async function accountTransaction<T>(
  em: EntityManager,
  accountId: string,
  work: (tx: EntityManager) => Promise<T>,
): Promise<T> {
  const turn = turns.get(accountId) ?? { limit: pLimit(transactionsPerAccount), users: 0 };
  turns.set(accountId, turn);
  turn.users += 1;
  try {
    return await turn.limit(() => em.transactional(work));
  } finally {
    turn.users -= 1;
    if (turn.users === 0) turns.delete(accountId);
  }
}
