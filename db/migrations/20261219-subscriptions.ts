import { Migration } from '@mikro-orm/migrations';

/**
 * The subscription of each account, its changes, and the invoices. Existing accounts get their subscription from
 * `db/migrate.ts`, which knows the plans.
 */
export class Migration20261219Subscriptions extends Migration {
  override up(): void {
    this.addSql(`
      create table subscriptions (
        subscription_id text primary key,
        account_id text not null unique references accounts,
        status text not null default 'active' check (status in ('active', 'past_due', 'canceled')),
        -- The plan as it was bought; the plans' file may have changed since.
        plan jsonb not null,
        -- The same as of the period's start.
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

      -- Changes to dearer plans: at most one of an account is under way.
      create table plan_changes (
        change_id text primary key,
        account_id text not null references accounts,
        plan jsonb not null,
        -- For what is not used of the plan before.
        credit numeric(18, 3) not null,
        status text not null default 'running' check (status in ('running', 'done', 'failed')),
        failure_reason text,
        requested_at timestamptz(3) not null,
        ended_at timestamptz(3),
        check ((status = 'running') = (ended_at is null))
      );
      create unique index plan_changes_running on plan_changes (account_id) where status = 'running';

      create table invoices (
        invoice_id text primary key,
        account_id text not null references accounts,
        -- Of a period, or of a change within one.
        kind text not null check (kind in ('period', 'plan_change')),
        change_id text unique references plan_changes,
        period_start timestamptz(3) not null,
        period_end timestamptz(3) not null,
        -- The plan whose price it asks for.
        plan jsonb not null,
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
        -- Null: nothing is charged by itself any more.
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

      -- What an issued invoice asks for stays, and it moves as \`domain/billing/invoice.ts\` says.
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
            new.tax_amount, new.total_amount, new.issued_at)
           is distinct from (old.account_id, old.kind, old.period_start, old.period_end, old.plan, old.currency, old.tax_rate,
            old.subtotal, old.tax_amount, old.total_amount, old.issued_at) then
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
    `);
  }
}
