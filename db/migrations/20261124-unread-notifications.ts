import { Migration } from '@mikro-orm/migrations';

/** Each list of notifications counts the unread ones. */
export class Migration20261124UnreadNotifications extends Migration {
  override up(): void {
    this.addSql('create index notifications_unread on notifications (user_id) where not is_read');
  }
}
