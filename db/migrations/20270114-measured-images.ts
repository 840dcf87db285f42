import { Migration } from '@mikro-orm/migrations';

/**
 * Sizes of images as the registry has them, bytes that imports left in the registry, and a limit for each recorded
 * usage: what the object can have used at most.
 */
export class Migration20270114MeasuredImages extends Migration {
  override up(): void {
    this.addSql(`
      alter table templates add column image_is_measured boolean not null default false;
      comment on column templates.image_is_measured is 'the sizes are those of the registry, and not claims of a manifest';
      create index templates_unmeasured on templates (image) where not image_is_measured and image like 'registry:%';

      create table import_leftovers (
        job_id text primary key,
        account_id text not null,
        bytes bigint not null,
        sent_at timestamptz(3) not null default now()
      );
      comment on table import_leftovers is
        'what imports have sent to the registry and no template has; kept when the job is deleted with its template';
      create index import_leftovers_account on import_leftovers (account_id);

      create table usage_refusals (
        resource_id text not null,
        usage_type text not null,
        period_start timestamptz(3) not null,
        period_end timestamptz(3) not null,
        account_id text not null,
        amount bigint not null,
        most numeric not null,
        refused_at timestamptz(3) not null default now(),
        primary key (resource_id, usage_type, period_start)
      );
      create index usage_refusals_refused_at on usage_refusals (refused_at);

      -- What an object can have used at most in a period. Null: the object is not known.
      create function most_usage(event usage_events) returns numeric stable language sql as $$
        select case event.usage_type
                 when 'cpu_seconds' then r.cpu_count * ms
                 when 'ram_gb_seconds' then r.memory_mb * ms
                 when 'sandbox_storage_gb_seconds' then
                   (select storage_gb from sandboxes where sandbox_id = event.resource_id) * ms
                 -- 100 Gbit/s in each direction: faster than the link between a sandbox and its host.
                 when 'traffic_gb' then 25000000 * ms
                 -- 4 TiB: larger than any image.
                 when 'template_storage_gb_seconds' then 4194304 * ms
                 -- Samples are five seconds apart, so their sum may be larger than the period allows.
                 when 'cpu_seconds_used' then 2 * r.cpu_count * (ms + 60000)
                 when 'ram_gb_seconds_used' then 2 * r.memory_mb * (ms + 60000)
               end
          from (select extract(epoch from event.period_end - event.period_start) * 1000 as ms) period
          left join usage_resources r on r.resource_id = event.resource_id
      $$;

      create function refuse_implausible_usage() returns trigger language plpgsql as $$
      declare
        most numeric := most_usage(new);
      begin
        if most is null or new.amount <= most then
          return new;
        end if;
        insert into usage_refusals (resource_id, usage_type, period_start, period_end, account_id, amount, most)
        values (new.resource_id, new.usage_type, new.period_start, new.period_end, new.account_id, new.amount, most)
        on conflict do nothing;
        return null;
      end $$;
      create trigger usage_events_plausible before insert on usage_events for each row
        execute function refuse_implausible_usage();
    `);
  }
}
