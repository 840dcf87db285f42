import type { Orm } from '../db/orm.ts';
import { expireEmailChange, findEmailChangeEnd } from '../db/repositories/email-changes.ts';

/** The row of a change of an account's e-mail. */
export function createEmailChangeActivities({ orm }: { orm: Orm }) {
  return {
    /** Unix milliseconds; null: the change is over. */
    findEmailChangeEnd: (changeId: string): Promise<number | null> => findEmailChangeEnd(orm.em, changeId),
    expireEmailChange: (changeId: string): Promise<void> => expireEmailChange(orm.em, changeId),
  };
}

export type EmailChangeActivities = ReturnType<typeof createEmailChangeActivities>;
