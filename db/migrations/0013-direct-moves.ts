import { Migration } from '@mikro-orm/migrations';

/**
 * `sandboxes.moved_directly`: the workflow has to adopt the status. `hosts.hears_moves`: the host listens for pauses and
 * resumes. A trigger notifies the API of the end of a start, a pause and a resume. `sandbox_started` stays for an API of
 * the previous release.
 */
export class Migration0013DirectMoves extends Migration {
  override up(): void {
    this.addSql(directMoves);
  }
}

const directMoves = `
  alter table sandboxes add column moved_directly boolean not null default false;
  alter table hosts add column hears_moves boolean not null default false;

  create function tell_sandbox_moved() returns trigger language plpgsql as $$
  begin
    perform pg_notify('sandbox_moved', new.sandbox_id || ' ' || new.status || ' '
      || (extract(epoch from coalesce(new.phase_since, now())) * 1000)::bigint || ' ' || coalesce(new.run, 0));
    return null;
  end $$;
  create trigger sandbox_moved after update of status on sandboxes for each row
    when (old.status in ('starting', 'pausing', 'resuming') and old.status <> new.status)
    execute function tell_sandbox_moved();
`;
