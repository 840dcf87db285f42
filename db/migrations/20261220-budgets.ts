import { Migration } from '@mikro-orm/migrations';

/** One budget per account, and the reported thresholds. Messages are kept after the deletion of their budget. */
export class Migration20261220Budgets extends Migration {
  override up(): void {
    this.addSql(`
      create table budgets (
        id bigint generated always as identity primary key,
        budget_key text not null,
        account_id text not null references accounts,
        amount numeric(18, 3) not null check (amount > 0),
        currency text not null check (currency ~ '^[A-Z]{3}$'),
        alert_thresholds jsonb not null,
        limit_type text not null check (limit_type in ('soft', 'hard')),
        notification_emails jsonb not null,
        is_active boolean not null default true,
        is_restricted boolean not null default false,
        -- The period that was restricted. Null: none is.
        restricted_period_start timestamptz(3),
        amount_set_at timestamptz(3) not null default now(),
        checked_at timestamptz(3) not null default now(),
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now(),
        constraint budgets_account unique (account_id),
        constraint budgets_key unique (budget_key),
        check (is_active or not is_restricted)
      );
      create table budget_messages (
        id text primary key,
        account_id text not null references accounts,
        budget_id bigint not null,
        threshold_percent integer not null,
        threshold_type text not null check (threshold_type in ('warning', 'exceeded')),
        usage_amount numeric(30, 6) not null,
        budget_amount numeric(18, 3) not null,
        currency text not null,
        percentage_used numeric(30, 2) not null,
        limit_type text not null,
        notification_ids jsonb not null,
        email_sent boolean not null default false,
        email_recipients text not null,
        email_subject text not null,
        period_start timestamptz(3) not null,
        period_end timestamptz(3) not null,
        created_at timestamptz(3) not null default now()
      );
      create index budget_messages_account on budget_messages (account_id, created_at desc, id);
      create index budget_messages_reports on budget_messages (account_id, threshold_percent, created_at desc);
      create index budget_messages_created on budget_messages (created_at);
    `);
  }
}
