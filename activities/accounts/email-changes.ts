import { expireEmailChange, findEmailChangeEnd } from '../../db/accounts/email-changes.ts';
import type { Orm } from '../../db/orm.ts';

/** Activities on the row of a change of an account's e-mail address. */
export function createEmailChangeActivities({ orm }: { orm: Orm }) {
  return {
    /** Unix milliseconds. Null: the change has ended. */
    findEmailChangeEnd: (changeId: string): Promise<number | null> => findEmailChangeEnd(orm.em, changeId),
    expireEmailChange: (changeId: string): Promise<void> => expireEmailChange(orm.em, changeId),
  };
}

export type EmailChangeActivities = ReturnType<typeof createEmailChangeActivities>;
