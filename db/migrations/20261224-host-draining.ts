import { Migration } from '@mikro-orm/migrations';

/** An operator can drain a host: it takes no sandboxes while `draining_since` is set. */
export class Migration20261224HostDraining extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column draining_since timestamptz(3)');
  }
}
