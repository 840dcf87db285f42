import { Migration } from '@mikro-orm/migrations';

/** Usage events of ended and invoiced months are dropped with their partition. Their sums stay. */
export class Migration20261220UsageRetention extends Migration {
  override up(): void {
    this.addSql(`
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
    `);
  }
}
