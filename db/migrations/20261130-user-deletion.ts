import { Migration } from '@mikro-orm/migrations';

/** When the deletion of a user began. The row is removed at its end. */
export class Migration20261130UserDeletion extends Migration {
  override up(): void {
    this.addSql('alter table users add column deletion_requested_at timestamptz(3)');
  }
}
