import { Migration } from '@mikro-orm/migrations';

/**
 * Plans the move of pending usage on each call. A session that has moved few events five times would keep a plan that
 * reads the whole table and compares each row with each place. Then 20,000 events would exceed the time limit of a
 * statement. See https://www.postgresql.org/docs/current/plpgsql-implementation.html#PLPGSQL-PLAN-CACHING.
 */
export class Migration20261228UsageRollUpPlan extends Migration {
  override up(): void {
    this.addSql("alter function roll_up_usage(integer) set plan_cache_mode = 'force_custom_plan'");
  }
}
