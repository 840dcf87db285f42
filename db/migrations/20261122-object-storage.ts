import { Migration } from '@mikro-orm/migrations';

/** Mounts of sandboxes, without their credentials. */
export class Migration20261122ObjectStorage extends Migration {
  override up(): void {
    this.addSql(`alter table sandboxes add column object_storage jsonb not null default '[]'`);
  }
}
