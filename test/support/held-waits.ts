import type { Orm } from '../../db/orm.ts';

/** So much longer the waits of failed sign-ins last. */
export const heldSeconds = 3600;

/** Makes the waits of failed sign-ins longer, so that none of them ends while a slow machine makes the next request. */
export async function holdWaits(orm: Orm): Promise<void> {
  await orm.em.fork().execute(`
    create function hold_wait() returns trigger language plpgsql as $$
    begin
      new.next_at := new.next_at + interval '${heldSeconds} seconds';
      return new;
    end $$;
    create trigger wait_held before update on sign_in_throttles for each row
      when (new.failures > old.failures and new.next_at > new.updated_at) execute function hold_wait();
  `);
}
