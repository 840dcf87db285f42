import { Migration } from '@mikro-orm/migrations';

/** Refunds of charges by operators. A row is written before the processor is asked, so that no refund is made twice. */
export class Migration20261221PaymentRefunds extends Migration {
  override up(): void {
    this.addSql(`
      create table payment_refunds (
        refund_id text primary key,
        payment_intent_id text not null references payment_intents,
        account_id text not null references accounts,
        amount numeric(18, 3) not null check (amount > 0),
        currency text not null,
        status text not null default 'requested' check (status in ('requested', 'pending', 'succeeded', 'failed')),
        processor_refund_id text unique,
        failure_reason text,
        description text not null,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create index payment_refunds_intent on payment_refunds (payment_intent_id);
    `);
  }
}
