import { Migration } from '@mikro-orm/migrations';

/**
 * `sandboxes.moved_directly`: the workflow has to adopt the status. A trigger notifies the API of the end of a start, a
 * pause and a resume, instead of the trigger `sandbox_started`.
 */
export class Migration0013DirectMoves extends Migration {
  override up(): void {
    this.addSql(directMoves);
  }
}

const directMoves = `
  alter table sandboxes add column moved_directly boolean not null default false;

  drop trigger sandbox_started on sandboxes;
  drop function tell_sandbox_started();

  create function tell_sandbox_moved() returns trigger language plpgsql as $$
  begin
    perform pg_notify('sandbox_moved', new.sandbox_id || ' ' || new.status || ' '
      || (extract(epoch from coalesce(new.phase_since, now())) * 1000)::bigint);
    return null;
  end $$;
  create trigger sandbox_moved after update of status on sandboxes for each row
    when (old.status in ('starting', 'pausing', 'resuming') and old.status <> new.status)
    execute function tell_sandbox_moved();
`;
