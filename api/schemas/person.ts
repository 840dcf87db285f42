import { z } from 'zod';
import type { Person } from '../../db/accounts/people.ts';

/** A person in replies to others, such as the owner of a sandbox, a project or a key. */
export const personSchema = z
  .object({ user_id: z.string(), username: z.string(), display_name: z.string(), email: z.string() })
  .meta({ id: 'Person' });

export function presentPerson(person: Person): z.output<typeof personSchema> {
  return {
    user_id: person.userId,
    username: person.username,
    display_name: person.displayName,
    email: person.email,
  };
}
