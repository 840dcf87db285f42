import { Migration } from '@mikro-orm/migrations';

/** `hosts.hears_starts`: the host listens for sandboxes to start. A trigger notifies the API when a sandbox runs. */
export class Migration0011DirectStarts extends Migration {
  override up(): void {
    this.addSql(directStarts);
  }
}

const directStarts = `
  alter table hosts add column hears_starts boolean not null default false;

  create function tell_sandbox_started() returns trigger language plpgsql as $$
  begin
    perform pg_notify('sandbox_started',
      new.sandbox_id || ' ' || (extract(epoch from new.started_at) * 1000)::bigint);
    return null;
  end $$;
  create trigger sandbox_started after update of status on sandboxes for each row
    when (old.status = 'starting' and new.status = 'running') execute function tell_sandbox_started();
`;
