import { Migration } from '@mikro-orm/migrations';

/** The processor's attempts at a charge that have failed, so that each one is reported once. */
export class Migration20270116FailedCharges extends Migration {
  override up(): void {
    this.addSql("alter table payment_intents add column failed_attempts text[] not null default '{}'");
  }
}
