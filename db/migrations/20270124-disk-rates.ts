import { Migration } from '@mikro-orm/migrations';

/** The rates at which a sandbox may read and write its disk. Sandboxes that were made before have no limit. */
export class Migration20270124DiskRates extends Migration {
  override up(): void {
    this.addSql('alter table sandboxes add column disk_rates jsonb');
  }
}
