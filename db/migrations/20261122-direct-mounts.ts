import { Migration } from '@mikro-orm/migrations';

/** Sandboxes whose own s3fs mounts their buckets. */
export class Migration20261122DirectMounts extends Migration {
  override up(): void {
    this.addSql(`alter table sandboxes add column direct_mount boolean not null default false`);
    this.addSql(`alter table sandboxes add column s3fs_path text not null default ''`);
  }
}
