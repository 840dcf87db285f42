import { Migration } from '@mikro-orm/migrations';

/** Quotas of accounts: allocations without a user. */
export class Migration20270122AccountQuotas extends Migration {
  override up(): void {
    this.addSql(`
      alter table quota_allocations alter column user_id drop not null;
      create unique index quota_allocations_active_account on quota_allocations (account_id)
        where status = 'active' and user_id is null;
    `);
  }
}
