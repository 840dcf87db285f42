import { Migration } from '@mikro-orm/migrations';

/** Hosts record which of their disks is nearly full. */
export class Migration20261123FullDisks extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column full_disk text');
  }
}
