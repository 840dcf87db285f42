import { Migration } from '@mikro-orm/migrations';

/** Hosts can be away for a planned time, and can be given up. */
export class Migration20261122HostLeases extends Migration {
  override up(): void {
    this.addSql(`
      alter table hosts
        add column away_until timestamptz(3),
        add column lost_at timestamptz(3);
    `);
  }
}
