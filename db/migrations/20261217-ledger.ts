import { Migration } from '@mikro-orm/migrations';

/** A double-entry ledger. Rows are only added and read, and the entries of each transaction sum to zero. */
export class Migration20261217Ledger extends Migration {
  override up(): void {
    this.addSql(`
      create table ledger_transactions (
        transaction_id text primary key,
        account_id text not null references accounts,
        kind text not null check (kind in ('credit_granted', 'credit_refunded', 'invoice_issued', 'invoice_voided',
          'balance_used', 'payment_received', 'payment_refunded')),
        currency text not null check (currency ~ '^[A-Z]{3}$'),
        description text not null,
        reference text unique,
        created_at timestamptz(3) not null default now(),
        unique (transaction_id, account_id, currency)
      );
      create index ledger_transactions_account on ledger_transactions (account_id, created_at desc, transaction_id);
      create table ledger_entries (
        transaction_id text not null,
        account_id text not null,
        currency text not null,
        ledger_account text not null
          check (ledger_account in ('balance', 'granted', 'receivable', 'revenue', 'tax', 'cash')),
        amount numeric(18, 3) not null check (amount <> 0),
        primary key (transaction_id, ledger_account),
        foreign key (transaction_id, account_id, currency)
          references ledger_transactions (transaction_id, account_id, currency)
      );
      create index ledger_entries_sums on ledger_entries (account_id, currency, ledger_account) include (amount);

      create function balance_ledger_transaction() returns trigger language plpgsql as $$
      begin
        if (select coalesce(sum(amount), 1) from ledger_entries where transaction_id = new.transaction_id) <> 0 then
          raise exception 'the entries of the ledger transaction % do not sum to zero', new.transaction_id
            using errcode = 'integrity_constraint_violation';
        end if;
        return null;
      end $$;
      create constraint trigger ledger_entries_balanced after insert on ledger_entries
        deferrable initially deferred for each row execute function balance_ledger_transaction();
      create constraint trigger ledger_transactions_balanced after insert on ledger_transactions
        deferrable initially deferred for each row execute function balance_ledger_transaction();

      create function keep_ledger() returns trigger language plpgsql as $$
      begin
        raise exception 'the ledger is kept as it is' using errcode = 'insufficient_privilege';
      end $$;
      create trigger ledger_transactions_kept before update or delete or truncate on ledger_transactions
        for each statement execute function keep_ledger();
      create trigger ledger_entries_kept before update or delete or truncate on ledger_entries
        for each statement execute function keep_ledger();
    `);
  }
}
