import { Migration } from '@mikro-orm/migrations';

/**
 * Quarter-hour sums of sandboxes' use, so that a week is read in 672 rows. The database adds each minute to its quarter
 * in the statement that stores the minute, so the two tables always agree.
 */
export class Migration20261122MetricsQuarters extends Migration {
  override up(): void {
    this.addSql(`
      create table sandbox_metrics_quarters (like sandbox_metrics_minutes including all) partition by range (sampled_at);

      create or replace function make_metrics_partitions(first_day date, last_day date) returns integer language plpgsql as $$
      declare
        parent text;
        day date;
        partition text;
        storage text;
        made integer := 0;
      begin
        perform pg_advisory_xact_lock(7403113);
        foreach parent in array array['sandbox_metrics', 'sandbox_metrics_minutes', 'sandbox_metrics_quarters'] loop
          -- A quarter's row is written fifteen times: there must be room beside it.
          storage := case parent when 'sandbox_metrics_quarters' then ' with (fillfactor = 50)' else '' end;
          for day in select generate_series(first_day, last_day, interval '1 day')::date loop
            partition := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            continue when to_regclass(partition) is not null;
            execute format('create table %I partition of %I for values from (%L) to (%L)', partition, parent,
              day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00') || storage;
            made := made + 1;
          end loop;
        end loop;
        return made;
      end $$;

      create or replace function drop_metrics_partitions(first_day_kept date) returns integer language plpgsql as $$
      declare
        partition text;
        dropped integer := 0;
      begin
        perform pg_advisory_xact_lock(7403113);
        for partition in
          select inhrelid::regclass::text from pg_inherits
           where inhparent in ('sandbox_metrics'::regclass, 'sandbox_metrics_minutes'::regclass,
                               'sandbox_metrics_quarters'::regclass)
             and to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') < first_day_kept
        loop
          execute format('drop table %s', partition);
          dropped := dropped + 1;
        end loop;
        return dropped;
      end $$;

      select make_metrics_partitions(
        least((select min(to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD')) from pg_inherits
                where inhparent = 'sandbox_metrics_minutes'::regclass), (now() at time zone 'UTC')::date),
        (now() at time zone 'UTC')::date + 2);

      create function add_up_metrics_quarters() returns trigger language plpgsql as $$
      begin
        insert into sandbox_metrics_quarters as quarter
        select sandbox_id, date_bin('15 minutes', sampled_at, 'epoch'), sum(samples), max(cpu_count),
               sum(cpu_used_pct_sum), max(mem_total), sum(mem_used_sum), max(disk_total), sum(disk_used_sum),
               sum(received_bytes), sum(sent_bytes)
          from added group by 1, 2 order by 1, 2
        on conflict (sandbox_id, sampled_at) do update
          set samples = quarter.samples + excluded.samples,
              cpu_count = greatest(quarter.cpu_count, excluded.cpu_count),
              cpu_used_pct_sum = quarter.cpu_used_pct_sum + excluded.cpu_used_pct_sum,
              mem_total = greatest(quarter.mem_total, excluded.mem_total),
              mem_used_sum = quarter.mem_used_sum + excluded.mem_used_sum,
              disk_total = greatest(quarter.disk_total, excluded.disk_total),
              disk_used_sum = quarter.disk_used_sum + excluded.disk_used_sum,
              received_bytes = quarter.received_bytes + excluded.received_bytes,
              sent_bytes = quarter.sent_bytes + excluded.sent_bytes;
        return null;
      end $$;
      create trigger sandbox_metrics_minutes_added after insert on sandbox_metrics_minutes
        referencing new table as added for each statement execute function add_up_metrics_quarters();

      insert into sandbox_metrics_quarters
      select sandbox_id, date_bin('15 minutes', sampled_at, 'epoch'), sum(samples), max(cpu_count),
             sum(cpu_used_pct_sum), max(mem_total), sum(mem_used_sum), max(disk_total), sum(disk_used_sum),
             sum(received_bytes), sum(sent_bytes)
        from sandbox_metrics_minutes group by 1, 2;
    `);
  }
}
