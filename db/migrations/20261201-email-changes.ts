import { Migration } from '@mikro-orm/migrations';

/** Changes of an account's e-mail address, which both addresses confirm. */
export class Migration20261201EmailChanges extends Migration {
  override up(): void {
    this.addSql(`
      create table email_changes (
        change_id text primary key,
        account_id text not null references accounts,
        requested_by text not null,
        current_email text not null,
        new_email text not null,
        status text not null default 'pending' check (status in ('pending', 'completed', 'expired', 'cleared')),
        current_token_hash text unique,
        new_token_hash text unique,
        current_confirmed_at timestamptz(3),
        new_confirmed_at timestamptz(3),
        created_at timestamptz(3) not null default now(),
        expires_at timestamptz(3) not null,
        ended_at timestamptz(3)
      );
      create unique index email_changes_pending on email_changes (account_id) where status = 'pending';
      create index email_changes_account on email_changes (account_id, created_at desc);
      create index email_changes_age on email_changes (created_at);
    `);
  }
}
