import { Migration } from '@mikro-orm/migrations';

/** Accounts at the payment processor: the storable fields of their cards, and their charges. */
export class Migration20261217Payments extends Migration {
  override up(): void {
    this.addSql(`
      create table payment_customers (
        account_id text primary key references accounts,
        customer_id text not null unique,
        created_at timestamptz(3) not null default now()
      );
      create table payment_setups (
        setup_intent_id text primary key,
        account_id text not null references accounts,
        created_at timestamptz(3) not null default now()
      );
      create index payment_setups_account on payment_setups (account_id, created_at desc);
      create table payment_methods (
        id text primary key,
        account_id text not null references accounts,
        payment_method_id text not null unique,
        setup_intent_id text,
        type text not null,
        fingerprint text,
        last4 text check (last4 ~ '^[0-9]{4}$'),
        exp_month integer,
        exp_year integer,
        brand text,
        billing_name text,
        billing_email text,
        billing_country text,
        is_default boolean not null default false,
        is_deleted boolean not null default false,
        is_verified boolean not null default false,
        verified_at timestamptz(3),
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create index payment_methods_account on payment_methods (account_id, created_at desc);
      create unique index payment_methods_default on payment_methods (account_id) where is_default and not is_deleted;
      create table payment_intents (
        payment_intent_id text primary key,
        account_id text not null references accounts,
        payment_method_id text,
        amount numeric(18, 3) not null check (amount > 0),
        currency text not null,
        status text not null,
        intent_type text not null,
        invoice_id text unique,
        amount_refunded numeric(18, 3) not null default 0,
        failure_reason text,
        metadata text not null default '{}',
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create index payment_intents_account on payment_intents (account_id, created_at desc, payment_intent_id);
    `);
  }
}
