import { Migration } from '@mikro-orm/migrations';

const quota = `
  cpu_seconds_monthly bigint check (cpu_seconds_monthly >= 0),
  ram_gb_seconds numeric(20, 6) check (ram_gb_seconds >= 0),
  sandbox_storage_gb_seconds numeric(20, 6) check (sandbox_storage_gb_seconds >= 0),
  traffic_gb_seconds numeric(20, 6) check (traffic_gb_seconds >= 0),
  template_storage_gb numeric(20, 6) check (template_storage_gb >= 0),
  concurrent_sandboxes integer check (concurrent_sandboxes >= 0)`;

/** Quotas of users, and their requests for higher ones. */
export class Migration20261127Quotas extends Migration {
  override up(): void {
    this.addSql(`
      create table quota_allocations (
        allocation_id text primary key,
        account_id text not null references accounts,
        user_id text not null references users,
        allocated_by_user_id text not null,
        ${quota},
        status text not null default 'active',
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index quota_allocations_active on quota_allocations (user_id) where status = 'active';
      create index quota_allocations_account on quota_allocations (account_id, created_at desc);
      create table quota_requests (
        request_id text primary key,
        account_id text not null references accounts,
        user_id text not null references users,
        ${quota},
        reason text not null,
        status text not null default 'pending',
        reviewed_by text,
        reviewed_at timestamptz(3),
        review_notes text,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index quota_requests_pending on quota_requests (user_id) where status = 'pending';
      create index quota_requests_account on quota_requests (account_id, created_at desc);
      create index quota_requests_user on quota_requests (user_id, created_at desc);
    `);
  }
}
