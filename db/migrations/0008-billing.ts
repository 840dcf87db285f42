import { Migration } from '@mikro-orm/migrations';

/** The ledger, payments, subscriptions with their invoices, budgets, and comparisons with the payment processor. */
export class Migration0008Billing extends Migration {
  override up(): void {
    this.addSql(ledger);
    this.addSql(payments);
    this.addSql(subscriptions);
    this.addSql(invoices);
    this.addSql(subscriptionChanges);
    this.addSql(budgets);
    this.addSql(reconciliations);
  }
}

/** Double entry. Rows are only added and read, and the entries of each transaction sum to zero when it commits. */
const ledger = `
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
`;

/** Customers of the payment processor: the storable fields of their cards, their charges and refunds. */
const payments = `
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
    -- The failed attempts of the processor, so that each one is reported once.
    failed_attempts text[] not null default '{}',
    metadata text not null default '{}',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create index payment_intents_account on payment_intents (account_id, created_at desc, payment_intent_id);

  -- A row is written before the processor is asked, so that no refund is made twice.
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
`;

const subscriptions = `
  create table subscriptions (
    subscription_id text primary key,
    account_id text not null unique references accounts,
    status text not null default 'active' check (status in ('active', 'past_due', 'canceled')),
    -- The plan as it was bought. The plans' file may have changed since.
    plan jsonb not null,
    -- The plan at the start of the period.
    opening_plan jsonb not null,
    -- Periods are counted from here.
    anchor timestamptz(3) not null,
    period_start timestamptz(3) not null,
    period_end timestamptz(3) not null,
    -- Takes effect when the period ends.
    planned_plan_name text,
    tax_rate numeric(7, 6) not null default 0 check (tax_rate between 0 and 1),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    check (period_end > period_start)
  );

  -- Changes to dearer plans. An account has at most one that is running.
  create table plan_changes (
    change_id text primary key,
    account_id text not null references accounts,
    plan jsonb not null,
    -- For the unused part of the previous plan.
    credit numeric(18, 3) not null,
    status text not null default 'running' check (status in ('running', 'done', 'failed')),
    failure_reason text,
    requested_at timestamptz(3) not null,
    ended_at timestamptz(3),
    check ((status = 'running') = (ended_at is null))
  );
  create unique index plan_changes_running on plan_changes (account_id) where status = 'running';
`;

/** Triggers keep the amounts of an issued invoice, and its states in the order of `domain/billing/invoice.ts`. */
const invoices = `
  create table invoices (
    invoice_id text primary key,
    account_id text not null references accounts,
    -- Of a period, or of a change within one.
    kind text not null check (kind in ('period', 'plan_change')),
    change_id text unique references plan_changes,
    period_start timestamptz(3) not null,
    period_end timestamptz(3) not null,
    -- The plan whose price is charged.
    plan jsonb not null,
    -- Parts of {periodStart, usageType, unitPrice, amount}. Usage that is recorded later is on the next invoice.
    -- Null: the invoice is of a change of the plan.
    billed_usage jsonb,
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    tax_rate numeric(7, 6) not null,
    subtotal numeric(18, 3) not null default 0,
    tax_amount numeric(18, 3) not null default 0,
    total_amount numeric(18, 3) not null default 0 check (total_amount >= 0),
    paid_from_balance numeric(18, 3) not null default 0,
    status text not null default 'draft' check (status in ('draft', 'open', 'paid', 'past_due', 'void')),
    -- Of a draft whose period is over.
    issue_at timestamptz(3),
    issued_at timestamptz(3),
    due_at timestamptz(3),
    paid_at timestamptz(3),
    charge_attempts integer not null default 0,
    first_attempt_at timestamptz(3),
    last_attempt_at timestamptz(3),
    -- Null: the platform makes no further attempt.
    next_charge_at timestamptz(3),
    failure_reason text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    check (period_end > period_start),
    check ((kind = 'plan_change') = (change_id is not null)),
    check (subtotal + tax_amount = total_amount),
    check (paid_from_balance between 0 and total_amount),
    check (status = 'draft' or issued_at is not null),
    check (status <> 'paid' or paid_at is not null)
  );
  create unique index invoices_period on invoices (account_id, period_start) where kind = 'period';
  create index invoices_account on invoices (account_id, created_at desc, invoice_id);
  create index invoices_unpaid on invoices (account_id) where status in ('draft', 'open', 'past_due');

  create table invoice_lines (
    invoice_id text not null references invoices on delete cascade,
    position integer not null,
    type text not null check (type in ('subscription', 'usage')),
    description text not null,
    quantity numeric not null,
    unit_price numeric not null,
    amount numeric(18, 3) not null,
    primary key (invoice_id, position)
  );

  create function keep_issued_invoice() returns trigger language plpgsql as $$
  begin
    if old.status = 'draft' then
      if tg_op = 'UPDATE' and new.status not in ('draft', 'open') then
        raise exception 'a draft is issued first' using errcode = 'integrity_constraint_violation';
      end if;
      return case tg_op when 'DELETE' then old else new end;
    end if;
    if tg_op = 'DELETE' then
      raise exception 'issued invoices are kept' using errcode = 'insufficient_privilege';
    end if;
    if (new.account_id, new.kind, new.period_start, new.period_end, new.plan, new.currency, new.tax_rate, new.subtotal,
        new.tax_amount, new.total_amount, new.issued_at, new.billed_usage)
       is distinct from (old.account_id, old.kind, old.period_start, old.period_end, old.plan, old.currency, old.tax_rate,
        old.subtotal, old.tax_amount, old.total_amount, old.issued_at, old.billed_usage) then
      raise exception 'an issued invoice is kept as it is' using errcode = 'insufficient_privilege';
    end if;
    if new.status <> old.status and not (old.status, new.status) in
      (('open', 'paid'), ('open', 'past_due'), ('open', 'void'), ('past_due', 'paid'), ('past_due', 'void')) then
      raise exception 'an invoice does not move from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
  create trigger invoices_kept before update or delete on invoices for each row execute function keep_issued_invoice();

  create function keep_issued_lines() returns trigger language plpgsql as $$
  begin
    if exists (select from invoices where status <> 'draft'
                and invoice_id = case tg_op when 'DELETE' then old.invoice_id else new.invoice_id end) then
      raise exception 'the lines of an issued invoice are kept' using errcode = 'insufficient_privilege';
    end if;
    return case tg_op when 'DELETE' then old else new end;
  end $$;
  create trigger invoice_lines_kept before insert or update or delete on invoice_lines
    for each row execute function keep_issued_lines();
`;

/** The history of plan changes. Rows are only added and read. */
const subscriptionChanges = `
  create table subscription_changes (
    change_id text primary key,
    account_id text not null references accounts,
    subscription_id text not null references subscriptions,
    change_reason text not null check (change_reason in ('upgraded', 'downgraded')),
    old_plan jsonb not null,
    new_plan jsonb not null,
    old_period_start timestamptz(3) not null,
    old_period_end timestamptz(3) not null,
    new_period_start timestamptz(3) not null,
    new_period_end timestamptz(3) not null,
    prorated_refund_amount numeric(18, 3) not null,
    invoice_id text references invoices,
    changed_at timestamptz(3) not null
  );
  create index subscription_changes_account on subscription_changes (account_id, changed_at desc, change_id);

  create function keep_subscription_changes() returns trigger language plpgsql as $$
  begin
    raise exception 'changes of subscriptions are kept as they are' using errcode = 'insufficient_privilege';
  end $$;
  create trigger subscription_changes_kept before update or delete or truncate on subscription_changes
    for each statement execute function keep_subscription_changes();
`;

/** One budget per account, and the reported thresholds. Messages are kept after the deletion of their budget. */
const budgets = `
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
`;

/** Nightly comparisons of the ledger, the charges and the payment processor, and the differences. */
const reconciliations = `
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

  -- The charges of the processor, while they are compared.
  create table reconciled_charges (
    reconciliation_id text not null references reconciliations on delete cascade,
    payment_intent_id text not null,
    primary key (reconciliation_id, payment_intent_id)
  );
`;
