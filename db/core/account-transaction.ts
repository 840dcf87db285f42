import type { EntityManager } from '@mikro-orm/postgresql';
import pLimit, { type LimitFunction } from 'p-limit';
import { AppError } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';

/** Fewer than the connections of a pool, so that one account cannot occupy all of them. */
const transactionsPerAccount = 2;
/** The maximum, including waiting ones. Each keeps its request and its body in memory. */
const maxTransactionsPerAccount = 100;

const turns = new Map<string, { limit: LimitFunction; users: number }>();

/**
 * Runs a transaction on behalf of a caller. Such transactions lock rows of the caller's account, so concurrent ones
 * wait for each other. They wait here, without occupying a connection of the pool.
 * @throws {AppError} `too_many_requests` when too many wait
 */
export async function accountTransaction<T>(
  em: EntityManager,
  accountId: AccountId | 'every account',
  work: (tx: EntityManager) => Promise<T>,
): Promise<T> {
  const turn = turns.get(accountId) ?? { limit: pLimit(transactionsPerAccount), users: 0 };
  if (turn.users >= maxTransactionsPerAccount) {
    throw new AppError('too_many_requests', 'Too many changes of your account are under way; try again in 1 s');
  }
  turns.set(accountId, turn);
  turn.users += 1;
  try {
    return await turn.limit(() => em.transactional(work));
  } finally {
    turn.users -= 1;
    if (turn.users === 0) turns.delete(accountId);
  }
}
