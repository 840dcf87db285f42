import { Migration } from '@mikro-orm/migrations';

/** An index for the count of unread notifications in each list. */
export class Migration20261124UnreadNotifications extends Migration {
  override up(): void {
    this.addSql('create index notifications_unread on notifications (user_id) where not is_read');
  }
}
