import { Migration } from '@mikro-orm/migrations';

/**
 * Outbox entries may be signals, and may become dead letters. Objects without their own counter have numbered events.
 */
export class Migration20261126OutboxAndEvents extends Migration {
  override up(): void {
    this.addSql(`
      alter table outbox add column signal text,
                         add column refusals integer not null default 0,
                         add column last_error text,
                         add column dead_at timestamptz(3);
      drop index outbox_due;
      create index outbox_due on outbox (not_before, id) where dead_at is null;
      create index outbox_workflow on outbox (workflow_id);

      create table event_sequences (
        object_id text primary key,
        last integer not null
      );
    `);
  }
}
