import { Migration } from '@mikro-orm/migrations';

/**
 * Operators' commands are also audited, and some of them concern no account. Some actions of the running platform need
 * the rights of the tables' owner. They are functions that run as the owner, so a role that may neither change audit
 * events nor make tables can call them.
 */
export class Migration20261210AuditOfEveryone extends Migration {
  override up(): void {
    this.addSql(`
      alter table audit_events alter account_id drop not null;

      -- Removes events of more than a year, some at a time; the caller cannot choose which.
      create function purge_audit_events(at_once integer) returns integer language plpgsql security definer
        set search_path = public, pg_temp as $$
      declare
        purged integer;
      begin
        delete from audit_events where ctid = any(array(
          select ctid from audit_events where created_at < clock_timestamp() - interval '365 days 1 hour' limit at_once));
        get diagnostics purged = row_count;
        return purged;
      end $$;

      alter function make_metrics_partitions(date, date) security definer set search_path = public, pg_temp;
      alter function drop_metrics_partitions(date) security definer set search_path = public, pg_temp;
    `);
  }
}
