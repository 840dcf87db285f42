import { Migration } from '@mikro-orm/migrations';
import { usagePrices } from '../billing/usage-prices.ts';

/** The metered usage with its prices and sums. */
export class Migration0007Metering extends Migration {
  override up(): void {
    this.addSql(usageEvents);
    this.addSql(usagePartitions);
    this.addSql(plausibility);
    this.addSql(sums);
    this.addSql(prices);
    for (const [type, price] of Object.entries(usagePrices.prices)) {
      this.addSql(`insert into usage_prices values ('${type}', ${price})`);
    }
    this.addSql(templateStorage);
  }
}

/**
 * Append-only events. The statement that adds an event also adds it to `usage_pending` (a trigger), from which
 * `roll_up_usage` moves it to the sums. So an event is always either in the sums or pending.
 */
const usageEvents = `
  -- The objects of the events. Rows stay when the object is removed.
  create table usage_resources (
    resource_id text primary key,
    account_id text not null,
    name text not null,
    cpu_count integer,
    memory_mb integer,
    metadata jsonb not null default '{}',
    created_at timestamptz(3) not null default clock_timestamp()
  );

  create table usage_events (
    resource_id text not null,
    usage_type text not null,
    period_start timestamptz(3) not null,
    period_end timestamptz(3) not null,
    account_id text not null,
    user_id text not null,
    -- Empty: no project.
    project_id text not null,
    amount bigint not null,
    unit_price numeric not null,
    created_at timestamptz(3) not null default now(),
    primary key (resource_id, usage_type, period_start),
    check (period_end > period_start and amount >= 0),
    check (period_end <= date_trunc('hour', period_start, 'UTC') + interval '1 hour')
  ) partition by range (period_start);
  create table usage_events_default partition of usage_events default;
  create index usage_events_account on usage_events (account_id, period_end);

  create function keep_usage_events() returns trigger language plpgsql as $$
  begin
    raise exception 'usage events are kept as they are' using errcode = 'insufficient_privilege';
  end $$;
  create trigger usage_events_kept before update or delete on usage_events for each row
    execute function keep_usage_events();

  create table usage_pending (
    resource_id text not null,
    usage_type text not null,
    period_start timestamptz(3) not null,
    account_id text not null,
    user_id text not null,
    project_id text not null,
    amount bigint not null,
    unit_price numeric not null
  );
  create index usage_pending_account on usage_pending (account_id);

  create function await_usage_sums() returns trigger language plpgsql as $$
  begin
    insert into usage_pending
    select resource_id, usage_type, period_start, account_id, user_id, project_id, amount, unit_price from added;
    return null;
  end $$;
  create trigger usage_events_added after insert on usage_events referencing new table as added
    for each statement execute function await_usage_sums();
`;

/**
 * Events have a partition per month (UTC). The default partition takes rows if the maintenance has not made a partition.
 * A month is dropped when it is summed and invoiced. Its sums stay.
 */
const usagePartitions = `
  create function make_usage_partitions(first_day date, last_day date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    month date;
    next_month date;
    partition text;
    made integer := 0;
  begin
    perform pg_advisory_xact_lock(7403115);
    for month in select generate_series(date_trunc('month', first_day::timestamp), last_day, interval '1 month')::date loop
      next_month := (month + interval '1 month')::date;
      partition := format('usage_events_%s', to_char(month, 'YYYYMMDD'));
      continue when to_regclass(partition) is not null;
      -- A month that has begun in the default partition stays there.
      continue when exists (select 1 from usage_events_default
        where period_start >= (month || ' 00:00:00+00')::timestamptz
          and period_start < (next_month || ' 00:00:00+00')::timestamptz);
      execute format('create table %I partition of usage_events for values from (%L) to (%L)', partition,
        month || ' 00:00:00+00', next_month || ' 00:00:00+00');
      made := made + 1;
    end loop;
    return made;
  end $$;

  create function drop_usage_partitions(first_day_kept date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    partition text;
    next_month timestamptz;
    dropped integer := 0;
  begin
    perform pg_advisory_xact_lock(7403115);
    for partition, next_month in
      select name, month + interval '1 month' from (
        select inhrelid::regclass::text as name,
               to_timestamp(right(inhrelid::regclass::text, 8) || ' UTC', 'YYYYMMDD TZ') as month
          from pg_inherits where inhparent = 'usage_events'::regclass and inhrelid <> 'usage_events_default'::regclass
      ) months where month + interval '1 month' <= (first_day_kept || ' 00:00:00+00')::timestamptz
    loop
      continue when exists (select from usage_pending where period_start < next_month);
      continue when exists (select from invoices where status = 'draft' and period_start < next_month);
      execute format('drop table %s', partition);
      dropped := dropped + 1;
    end loop;
    return dropped;
  end $$;

  select make_usage_partitions((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 62);
`;

/** Each event has a limit: what its object can have used at most. An event above it is refused and recorded. */
const plausibility = `
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

  -- The most that an object can have used in a period. Null if the object is not known.
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
`;

/**
 * Sums by hour and day, and the same by the metadata of the sandboxes, for sandboxes that have any.
 *
 * `roll_up_usage` is planned on each call. After five calls with few events, a session would keep a plan that reads the
 * whole table and compares each row with each place. Then 20,000 events would exceed the time limit of a statement. See
 * https://www.postgresql.org/docs/current/plpgsql-implementation.html#PLPGSQL-PLAN-CACHING.
 */
const sums = `
  create table usage_hours (
    account_id text not null,
    bucket timestamptz(3) not null,
    usage_type text not null,
    user_id text not null,
    project_id text not null,
    unit_price numeric not null,
    amount bigint not null,
    events integer not null,
    primary key (account_id, bucket, usage_type, user_id, project_id, unit_price)
  );
  create table usage_days (like usage_hours including all);

  create table usage_label_hours (
    account_id text not null,
    bucket timestamptz(3) not null,
    usage_type text not null,
    user_id text not null,
    project_id text not null,
    unit_price numeric not null,
    metadata_hash text not null,
    metadata jsonb not null,
    amount bigint not null,
    primary key (account_id, bucket, usage_type, user_id, project_id, unit_price, metadata_hash)
  );
  create table usage_label_days (like usage_label_hours including all);

  -- Moves up to at_most pending events to the sums.
  create function roll_up_usage(at_most integer) returns integer language plpgsql as $$
  declare
    moved integer;
  begin
    perform pg_advisory_xact_lock(7403116);
    with taken as (
      delete from usage_pending where ctid = any (array(select ctid from usage_pending limit at_most)) returning *
    ), hours as (
      insert into usage_hours as sum
      select account_id, date_trunc('hour', period_start, 'UTC'), usage_type, user_id, project_id, unit_price,
             sum(amount), count(*)
        from taken group by 1, 2, 3, 4, 5, 6
      on conflict (account_id, bucket, usage_type, user_id, project_id, unit_price)
        do update set amount = sum.amount + excluded.amount, events = sum.events + excluded.events
    ), days as (
      insert into usage_days as sum
      select account_id, date_trunc('day', period_start, 'UTC'), usage_type, user_id, project_id, unit_price,
             sum(amount), count(*)
        from taken group by 1, 2, 3, 4, 5, 6
      on conflict (account_id, bucket, usage_type, user_id, project_id, unit_price)
        do update set amount = sum.amount + excluded.amount, events = sum.events + excluded.events
    ), labelled as (
      select t.*, md5(r.metadata::text) as metadata_hash, r.metadata
        from taken t join usage_resources r using (resource_id) where r.metadata <> '{}'
    ), label_hours as (
      insert into usage_label_hours as sum
      select account_id, date_trunc('hour', period_start, 'UTC'), usage_type, user_id, project_id, unit_price,
             metadata_hash, metadata, sum(amount)
        from labelled group by 1, 2, 3, 4, 5, 6, 7, 8
      on conflict (account_id, bucket, usage_type, user_id, project_id, unit_price, metadata_hash)
        do update set amount = sum.amount + excluded.amount
    ), label_days as (
      insert into usage_label_days as sum
      select account_id, date_trunc('day', period_start, 'UTC'), usage_type, user_id, project_id, unit_price,
             metadata_hash, metadata, sum(amount)
        from labelled group by 1, 2, 3, 4, 5, 6, 7, 8
      on conflict (account_id, bucket, usage_type, user_id, project_id, unit_price, metadata_hash)
        do update set amount = sum.amount + excluded.amount
    )
    select count(*) into moved from taken;
    return moved;
  end $$;
  alter function roll_up_usage(integer) set plan_cache_mode = 'force_custom_plan';
`;

/**
 * The price of each usage type, and its prices over time, which a trigger keeps: usage that is recorded after a change of
 * prices has the prices that were valid when it happened.
 */
const prices = `
  create table usage_prices (
    usage_type text primary key,
    unit_price numeric not null
  );

  create table usage_price_periods (
    usage_type text not null,
    since timestamptz(3) not null,
    until timestamptz(3) not null default 'infinity',
    unit_price numeric not null,
    primary key (usage_type, since)
  );

  create function keep_usage_price_periods() returns trigger language plpgsql as $$
  declare
    -- All types that a statement changes have the same time.
    at timestamptz(3) := statement_timestamp();
    begun timestamptz(3);
  begin
    select since into begun from usage_price_periods where usage_type = new.usage_type and until = 'infinity';
    if begun is null then
      insert into usage_price_periods (usage_type, since, unit_price)
      values (new.usage_type, '-infinity', new.unit_price);
      return null;
    end if;
    -- Periods stay in order if the clock was set back, or with two changes within a millisecond.
    at := greatest(at, case when isfinite(begun) then begun + interval '1 millisecond' end);
    update usage_price_periods set until = at where usage_type = new.usage_type and since = begun;
    insert into usage_price_periods (usage_type, since, unit_price) values (new.usage_type, at, new.unit_price);
    return null;
  end $$;
  create trigger usage_prices_inserted after insert on usage_prices for each row
    execute function keep_usage_price_periods();
  create trigger usage_prices_changed after update on usage_prices for each row
    when (old.unit_price is distinct from new.unit_price) execute function keep_usage_price_periods();
`;

/**
 * A cursor has the time up to which the usage of an object is recorded. For templates, a trigger also records usage when
 * the size or owner of the image changes, so that each second counts with the right values.
 */
const templateStorage = `
  create table usage_cursors (
    resource_id text primary key,
    metered_until timestamptz(3) not null
  );

  -- The bytes that a template of an account keeps in the registry.
  create function template_bytes(template templates) returns bigint immutable language sql as $$
    select case when template.account_id is not null and template.owner_user_id is not null
                 and template.registry_image_url is not null then coalesce(template.image_size_bytes, 0) else 0 end
  $$;

  -- Records the usage of a template since the last record, with the given row: the present or the previous one.
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

  -- Records the usage of a template with its present row. Takes a lock, so that its owner cannot change meanwhile.
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
`;
