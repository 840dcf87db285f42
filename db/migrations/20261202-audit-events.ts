import { Migration } from '@mikro-orm/migrations';

/** The audit log. Rows can be added and read. No row can be changed, and none can be removed within a year. */
export class Migration20261202AuditEvents extends Migration {
  override up(): void {
    this.addSql(`
      create table audit_events (
        event_id text primary key,
        account_id text not null references accounts,
        actor_user_id text,
        actor_key_id text,
        actor_session_id text,
        address text not null,
        request_id text not null,
        action text not null,
        object_id text,
        before jsonb,
        after jsonb,
        created_at timestamptz(3) not null default clock_timestamp()
      );
      create index audit_events_account on audit_events (account_id, created_at desc, event_id);
      create index audit_events_actor on audit_events (account_id, actor_user_id, created_at desc);
      create index audit_events_object on audit_events (account_id, object_id, created_at desc);
      create index audit_events_age on audit_events (created_at);

      create function keep_audit_events() returns trigger language plpgsql as $$
      begin
        if tg_op = 'DELETE' and old.created_at < clock_timestamp() - interval '365 days' then
          return old;
        end if;
        raise exception 'audit events are kept as they are' using errcode = 'insufficient_privilege';
      end $$;
      create trigger audit_events_kept before update or delete on audit_events for each row
        execute function keep_audit_events();
      create trigger audit_events_not_truncated before truncate on audit_events for each statement
        execute function keep_audit_events();
    `);
  }
}
