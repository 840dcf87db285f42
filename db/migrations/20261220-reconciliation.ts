import { Migration } from '@mikro-orm/migrations';

/** Nightly comparisons of the ledger, the charges and the payment processor, and the differences. */
export class Migration20261220Reconciliation extends Migration {
  override up(): void {
    this.addSql(`
      create table reconciliations (
        reconciliation_id text primary key,
        started_at timestamptz(3) not null default now(),
        ended_at timestamptz(3),
        -- False: no payment processor was configured.
        reads_processor boolean not null,
        -- The charges that are compared were made between these times.
        charges_from timestamptz(3) not null,
        charges_until timestamptz(3) not null
      );
      create index reconciliations_started on reconciliations (started_at desc);
      create table reconciliation_differences (
        reconciliation_id text not null references reconciliations on delete cascade,
        kind text not null,
        object_id text not null,
        account_id text,
        expected text not null,
        found text not null,
        created_at timestamptz(3) not null default now(),
        primary key (reconciliation_id, kind, object_id)
      );
      -- The charges that the processor has, while they are compared.
      create table reconciled_charges (
        reconciliation_id text not null references reconciliations on delete cascade,
        payment_intent_id text not null,
        primary key (reconciliation_id, payment_intent_id)
      );
    `);
  }
}
