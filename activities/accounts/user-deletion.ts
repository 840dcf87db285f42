import { findSandboxesToEnd, handOver, removeUser } from '../../db/accounts/user-deletion.ts';
import type { Orm } from '../../db/orm.ts';
import type { UserId } from '../../domain/ids.ts';

/** Steps of a user's deletion. Each does a bounded part, and may be repeated at any time. */
export function createUserDeletionActivities({ orm }: { orm: Orm }) {
  return {
    findSandboxesToEnd: (userId: UserId) => findSandboxesToEnd(orm.em, userId),
    /** @returns the number of rows that got another owner; 0 when no row is left to hand over */
    handOver: (userId: UserId): Promise<number> => handOver(orm.em, userId),
    removeUser: (userId: UserId) => removeUser(orm.em, userId),
  };
}

export type UserDeletionActivities = ReturnType<typeof createUserDeletionActivities>;
