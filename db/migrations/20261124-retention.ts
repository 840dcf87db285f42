import { Migration } from '@mikro-orm/migrations';

/** Indexes that find old rows by their age and owner. */
export class Migration20261124Retention extends Migration {
  override up(): void {
    this.addSql(`
      create index events_age on events (created_at);
      create index notifications_age on notifications (created_at);
      create index notifications_account on notifications (account_id, created_at desc);
      create index idempotency_keys_caller on idempotency_keys (caller, created_at desc);
      create index sandboxes_ended on sandboxes (coalesce(deleted_at, ended_at))
        where status in ('terminated', 'failed') and not holds_compute and not holds_disk;
    `);
  }
}
