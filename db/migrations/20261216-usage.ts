import { Migration } from '@mikro-orm/migrations';

/**
 * Usage: append-only events, and their sums by hour and day. The statement that adds an event also adds it to
 * `usage_pending` (a trigger), from which it is moved to the sums. So an event is always either in the sums or pending.
 * Events have a partition per month (UTC). The default partition takes rows if the maintenance has not made a
 * partition.
 */
export class Migration20261216Usage extends Migration {
  override up(): void {
    this.addSql(`
      alter table sandboxes add column metered_until timestamptz(3);
      -- Metering of what lives already begins now.
      update sandboxes set metered_until = clock_timestamp() where phase_kind is not null;
      create index sandboxes_metered on sandboxes (account_id) where phase_kind is not null;

      -- What events say of their object. Kept when the object is gone.
      create table usage_resources (
        resource_id text primary key,
        account_id text not null,
        name text not null,
        cpu_count integer,
        memory_mb integer,
        metadata jsonb not null default '{}',
        created_at timestamptz(3) not null default clock_timestamp()
      );
      insert into usage_resources (resource_id, account_id, name, cpu_count, memory_mb, metadata)
      select sandbox_id, account_id, name, cpu_count, memory_mb, metadata from sandboxes where phase_kind is not null;

      create table usage_events (
        resource_id text not null,
        usage_type text not null,
        period_start timestamptz(3) not null,
        period_end timestamptz(3) not null,
        account_id text not null,
        user_id text not null,
        -- Empty: of no project.
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

      -- The same by the metadata of the sandboxes, for those that have any.
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
      select make_usage_partitions((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 62);

      -- Moves up to so many pending events to the sums.
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
    `);
  }
}
