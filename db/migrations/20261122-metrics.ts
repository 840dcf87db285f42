import { Migration } from '@mikro-orm/migrations';

/**
 * Sandboxes' use, and regions that are stored: samples every five seconds and their minutes. Both have a partition per
 * day (UTC), so that old days can be dropped at once.
 */
export class Migration20261122Metrics extends Migration {
  override up(): void {
    this.addSql(`
      create table sandbox_metrics (
        sandbox_id text not null,
        sampled_at timestamptz(3) not null,
        cpu_count integer not null,
        cpu_used_pct real not null,
        mem_total bigint not null,
        mem_used bigint not null,
        disk_total bigint not null,
        disk_used bigint not null,
        received_bytes bigint not null,
        sent_bytes bigint not null,
        primary key (sandbox_id, sampled_at)
      ) partition by range (sampled_at);

      create table sandbox_metrics_minutes (
        sandbox_id text not null,
        sampled_at timestamptz(3) not null,
        samples integer not null,
        cpu_count integer not null,
        cpu_used_pct_sum float8 not null,
        mem_total bigint not null,
        mem_used_sum float8 not null,
        disk_total bigint not null,
        disk_used_sum float8 not null,
        received_bytes bigint not null,
        sent_bytes bigint not null,
        primary key (sandbox_id, sampled_at)
      ) partition by range (sampled_at);

      create function make_metrics_partitions(first_day date, last_day date) returns integer language plpgsql as $$
      declare
        parent text;
        day date;
        partition text;
        made integer := 0;
      begin
        perform pg_advisory_xact_lock(7403113);
        foreach parent in array array['sandbox_metrics', 'sandbox_metrics_minutes'] loop
          for day in select generate_series(first_day, last_day, interval '1 day')::date loop
            partition := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            continue when to_regclass(partition) is not null;
            execute format('create table %I partition of %I for values from (%L) to (%L)', partition, parent,
              day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
            made := made + 1;
          end loop;
        end loop;
        return made;
      end $$;

      create function drop_metrics_partitions(first_day_kept date) returns integer language plpgsql as $$
      declare
        partition text;
        dropped integer := 0;
      begin
        perform pg_advisory_xact_lock(7403113);
        for partition in
          select inhrelid::regclass::text from pg_inherits
           where inhparent in ('sandbox_metrics'::regclass, 'sandbox_metrics_minutes'::regclass)
             and to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') < first_day_kept
        loop
          execute format('drop table %s', partition);
          dropped := dropped + 1;
        end loop;
        return dropped;
      end $$;

      select make_metrics_partitions((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 2);

      alter table hosts add column bandwidth_mbps integer;
      alter table sandboxes add column region_forced boolean not null default false;
    `);
  }
}
