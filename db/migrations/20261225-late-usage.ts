import { Migration } from '@mikro-orm/migrations';

/** The billed usage of each invoice by period. Usage that is recorded later is on the next invoice. */
export class Migration20261225LateUsage extends Migration {
  override up(): void {
    this.addSql(`
      -- Parts of {periodStart, usageType, unitPrice, amount}. Null: of a change of the plan, or of a version that did not keep it.
      alter table invoices add column billed_usage jsonb;

      create or replace function keep_issued_invoice() returns trigger language plpgsql as $$
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
    `);
  }
}
