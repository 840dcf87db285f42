import { Migration } from '@mikro-orm/migrations';

/**
 * Commands (exec) whose end becomes an event, from before their start until the event is recorded. Only webhooks that
 * list such events receive them; `*` does not include them.
 */
export class Migration20261215WatchedRuns extends Migration {
  override up(): void {
    this.addSql(`
      create table watched_runs (
        run_id text primary key,
        sandbox_id text not null references sandboxes on delete cascade,
        started_at text not null,
        deadline timestamptz(3) not null,
        -- The sandbox's agent has confirmed the start.
        has_started boolean not null default false,
        -- When a process may ask the agent for the end; one that asks moves it on.
        ask_at timestamptz(3) not null
      );
      create index watched_runs_due on watched_runs (ask_at);
      create index watched_runs_sandbox on watched_runs (sandbox_id);

      create or replace function deliver_event() returns trigger language plpgsql as $$
      declare
        family text := split_part(new.type, '.', 1);
        subscriptions text[] := array[new.type, family || '.*'] || case when family = 'exec' then '{}' else '{*}' end::text[];
      begin
        insert into webhook_deliveries (delivery_id, endpoint_id, account_id, event_id, event_type, event_at, data, max_attempts)
        select 'whd-' || replace(gen_random_uuid()::text, '-', ''), w.endpoint_id, w.account_id, new.event_id, new.type,
               new.created_at, new.data, w.max_retries + 1
          from webhook_endpoints w
         where w.account_id = new.account_id and w.is_active
           and w.event_types && subscriptions
           and (w.user_id is null or (w.user_id = new.user_id
             and exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled')));
        if found then
          notify webhook_deliveries;
        end if;
        return null;
      end $$;
    `);
  }
}
