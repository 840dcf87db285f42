import { Migration } from '@mikro-orm/migrations';
import { usagePrices } from '../billing/usage-prices.ts';

/**
 * The price of each usage type over time, so that usage that is recorded after a change of prices has the prices that
 * were valid when it happened. A trigger on `usage_prices` keeps it.
 */
export class Migration20270122UsagePricePeriods extends Migration {
  override up(): void {
    const { prices } = usagePrices;
    this.addSql(`
      create table usage_price_periods (
        usage_type text not null,
        since timestamptz(3) not null,
        until timestamptz(3) not null default 'infinity',
        unit_price numeric not null,
        primary key (usage_type, since)
      );
      create function keep_usage_price_periods() returns trigger language plpgsql as $$
      declare
        -- The same for all types that a statement changes.
        at timestamptz(3) := statement_timestamp();
        begun timestamptz(3);
      begin
        select since into begun from usage_price_periods where usage_type = new.usage_type and until = 'infinity';
        if begun is null then
          insert into usage_price_periods (usage_type, since, unit_price)
          values (new.usage_type, '-infinity', new.unit_price);
          return null;
        end if;
        -- After a clock that was set back, and for two changes within a millisecond.
        at := greatest(at, case when isfinite(begun) then begun + interval '1 millisecond' end);
        update usage_price_periods set until = at where usage_type = new.usage_type and since = begun;
        insert into usage_price_periods (usage_type, since, unit_price) values (new.usage_type, at, new.unit_price);
        return null;
      end $$;
      create trigger usage_prices_inserted after insert on usage_prices for each row
        execute function keep_usage_price_periods();
      create trigger usage_prices_changed after update on usage_prices for each row
        when (old.unit_price is distinct from new.unit_price) execute function keep_usage_price_periods();
      insert into usage_price_periods (usage_type, since, unit_price)
      select usage_type, '-infinity', unit_price from usage_prices;
    `);
    for (const [type, price] of Object.entries(prices)) {
      this.addSql(`insert into usage_prices values ('${type}', ${price}) on conflict do nothing`);
    }
  }
}
