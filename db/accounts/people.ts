import type { UserId } from '../../domain/ids.ts';

/** A user in replies to others. */
export interface Person {
  userId: UserId;
  username: string;
  displayName: string;
  email: string;
}

/** The columns of `selectPerson`. Null: there is no user. */
export type PersonRow<Prefix extends string> = {
  [column in `${Prefix}_${'id' | 'username' | 'display_name' | 'email'}`]: string | null;
};

/** SQL that selects a person from `alias`. `readPerson` reads it with the same prefix. */
export function selectPerson(alias: string, prefix: string): string {
  const names = ['username', 'display_name', 'email'].map((column) => `${alias}.${column} as ${prefix}_${column}`);
  return [`${alias}.user_id as ${prefix}_id`, ...names].join(', ');
}

/** SQL that joins the first root user of the account of `alias` as `root`. It adds and removes no rows. */
export function joinAccountRoot(alias: string, root: string): string {
  return `left join lateral (select * from users where account_id = ${alias}.account_id and is_root_user
                              order by created_at, user_id limit 1) ${root} on true`;
}

/** The person in a row. Null: the join found no user. */
export function readPerson<Prefix extends string>(row: PersonRow<Prefix>, prefix: Prefix): Person | null {
  const userId = row[`${prefix}_id`];
  if (!userId) return null;
  return {
    userId: userId as UserId,
    username: String(row[`${prefix}_username`]),
    displayName: String(row[`${prefix}_display_name`]),
    email: String(row[`${prefix}_email`]),
  };
}
