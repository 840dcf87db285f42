import { Migration } from '@mikro-orm/migrations';

/**
 * Measured usage: for each object, a cursor contains the time up to which it is recorded. For images of templates, a
 * trigger also records usage when their size or owner changes, so that each second counts with the right values.
 */
export class Migration20261216UsageMeasured extends Migration {
  override up(): void {
    this.addSql(`
      create table usage_cursors (
        resource_id text primary key,
        metered_until timestamptz(3) not null
      );
      create table usage_prices (
        usage_type text primary key,
        unit_price numeric not null
      );

      -- The bytes that a template of an account keeps in the registry.
      create function template_bytes(template templates) returns bigint immutable language sql as $$
        select case when template.account_id is not null and template.owner_user_id is not null
                     and template.registry_image_url is not null then coalesce(template.image_size_bytes, 0) else 0 end
      $$;

      -- Records what a template has kept since it was last recorded, as it is now or was before the change at hand.
      create function record_template(template templates, until timestamptz) returns integer language plpgsql as $$
      declare
        since timestamptz;
        recorded integer := 0;
      begin
        select metered_until into since from usage_cursors where resource_id = template.template_id for update;
        if since is null or until <= since then
          return 0;
        end if;
        if template_bytes(template) > 0 then
          insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end,
                                    amount, unit_price)
          select template.template_id, template.account_id, template.owner_user_id, '', 'template_storage_gb_seconds',
                 greatest(hour, since), least(hour + interval '1 hour', until),
                 round(template_bytes(template) / 1048576.0 * 1000 *
                   extract(epoch from least(hour + interval '1 hour', until) - greatest(hour, since))),
                 coalesce((select unit_price from usage_prices where usage_type = 'template_storage_gb_seconds'), 0)
            from generate_series(date_trunc('hour', since, 'UTC'), until, interval '1 hour') hour
           where least(hour + interval '1 hour', until)::timestamptz(3) > greatest(hour, since)
          on conflict do nothing;
          get diagnostics recorded = row_count;
        end if;
        update usage_cursors set metered_until = until where resource_id = template.template_id;
        return recorded;
      end $$;

      create function record_template_storage(id text, until timestamptz) returns integer language plpgsql as $$
      declare
        template templates;
      begin
        select * into template from templates where template_id = id for key share;
        return case when found then record_template(template, until::timestamptz(3)) else 0 end;
      end $$;

      create function meter_template() returns trigger language plpgsql as $$
      declare
        at timestamptz(3) := clock_timestamp();
      begin
        if tg_op <> 'INSERT' then
          perform record_template(old, at);
        end if;
        if tg_op = 'DELETE' then
          delete from usage_cursors where resource_id = old.template_id;
        elsif template_bytes(new) > 0 then
          insert into usage_cursors values (new.template_id, at) on conflict do nothing;
          insert into usage_resources (resource_id, account_id, name) values (new.template_id, new.account_id, new.name)
            on conflict do nothing;
        end if;
        return null;
      end $$;
      create trigger templates_metered after insert or delete on templates for each row execute function meter_template();
      create trigger templates_metered_on_change after update on templates for each row
        when (old.image_size_bytes is distinct from new.image_size_bytes
              or old.registry_image_url is distinct from new.registry_image_url
              or old.owner_user_id is distinct from new.owner_user_id or old.account_id is distinct from new.account_id)
        execute function meter_template();

      insert into usage_cursors select t.template_id, clock_timestamp() from templates t where template_bytes(t) > 0;
      insert into usage_resources (resource_id, account_id, name)
      select t.template_id, t.account_id, t.name from templates t where template_bytes(t) > 0;
    `);
  }
}
