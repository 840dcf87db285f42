/** A user as others see them. */
export interface Person {
  userId: string;
  username: string;
  displayName: string;
  email: string;
}

/** SQL that selects a person from `alias`, read back by `readPerson` under the same prefix. */
export function selectPerson(alias: string, prefix: string): string {
  return ['user_id', 'username', 'display_name', 'email']
    .map((column) => `${alias}.${column} as ${prefix}_${column}`)
    .join(', ');
}

/** The person a row carries. Null: the join found nobody. */
export function readPerson(row: Record<string, unknown>, prefix: string): Person | null {
  const userId = row[`${prefix}_user_id`];
  if (typeof userId !== 'string') return null;
  return {
    userId,
    username: String(row[`${prefix}_username`]),
    displayName: String(row[`${prefix}_display_name`]),
    email: String(row[`${prefix}_email`]),
  };
}
