import type { Orm } from '../../db/orm.ts';

/** Seconds that are added to the waits after failed sign-ins. */
export const heldSeconds = 3600;

/** Makes the waits after failed sign-ins so long that none ends before the next request on a slow machine. */
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
