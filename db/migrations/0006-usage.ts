import { Migration } from '@mikro-orm/migrations';

/** Quotas, samples of sandboxes, and watched commands. */
export class Migration0006Usage extends Migration {
  override up(): void {
    this.addSql(quotas);
    this.addSql(samples);
    this.addSql(samplePartitions);
    this.addSql(watchedRuns);
  }
}

const limits = `
    cpu_seconds_monthly bigint check (cpu_seconds_monthly >= 0),
    ram_gb_seconds numeric(20, 6) check (ram_gb_seconds >= 0),
    sandbox_storage_gb_seconds numeric(20, 6) check (sandbox_storage_gb_seconds >= 0),
    traffic_gb_seconds numeric(20, 6) check (traffic_gb_seconds >= 0),
    template_storage_gb numeric(20, 6) check (template_storage_gb >= 0),
    concurrent_sandboxes integer check (concurrent_sandboxes >= 0)`;

/** Quotas of users and, without a user, of accounts. Users request higher ones. */
const quotas = `
  create table quota_allocations (
    allocation_id text primary key,
    account_id text not null references accounts,
    user_id text references users,
    allocated_by_user_id text not null,
    ${limits},
    status text not null default 'active',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index quota_allocations_active on quota_allocations (user_id) where status = 'active';
  create unique index quota_allocations_active_account on quota_allocations (account_id)
    where status = 'active' and user_id is null;
  create index quota_allocations_account on quota_allocations (account_id, created_at desc);

  create table quota_requests (
    request_id text primary key,
    account_id text not null references accounts,
    user_id text not null references users,
    ${limits},
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
`;

/**
 * Samples every five seconds, and their sums by minute and by quarter of an hour, so that a week is read in 672 rows. The
 * statement that stores a minute also adds it to its quarter (a trigger), so the two tables always agree.
 */
const samples = `
  create table sandbox_metrics (
    sandbox_id text not null,
    sampled_at timestamptz(3) not null,
    cpu_count integer not null,
    cpu_used_pct real not null,
    mem_total bigint not null,
    mem_used bigint not null,
    disk_total bigint not null,
    disk_used bigint not null,
    received_bytes bigint not null,
    sent_bytes bigint not null,
    primary key (sandbox_id, sampled_at)
  ) partition by range (sampled_at);

  create table sandbox_metrics_minutes (
    sandbox_id text not null,
    sampled_at timestamptz(3) not null,
    samples integer not null,
    cpu_count integer not null,
    cpu_used_pct_sum float8 not null,
    mem_total bigint not null,
    mem_used_sum float8 not null,
    disk_total bigint not null,
    disk_used_sum float8 not null,
    received_bytes bigint not null,
    sent_bytes bigint not null,
    primary key (sandbox_id, sampled_at)
  ) partition by range (sampled_at);

  create table sandbox_metrics_quarters (like sandbox_metrics_minutes including all) partition by range (sampled_at);

  create function add_up_metrics_quarters() returns trigger language plpgsql as $$
  begin
    insert into sandbox_metrics_quarters as quarter
    select sandbox_id, date_bin('15 minutes', sampled_at, 'epoch'), sum(samples), max(cpu_count),
           sum(cpu_used_pct_sum), max(mem_total), sum(mem_used_sum), max(disk_total), sum(disk_used_sum),
           sum(received_bytes), sum(sent_bytes)
      from added group by 1, 2 order by 1, 2
    on conflict (sandbox_id, sampled_at) do update
      set samples = quarter.samples + excluded.samples,
          cpu_count = greatest(quarter.cpu_count, excluded.cpu_count),
          cpu_used_pct_sum = quarter.cpu_used_pct_sum + excluded.cpu_used_pct_sum,
          mem_total = greatest(quarter.mem_total, excluded.mem_total),
          mem_used_sum = quarter.mem_used_sum + excluded.mem_used_sum,
          disk_total = greatest(quarter.disk_total, excluded.disk_total),
          disk_used_sum = quarter.disk_used_sum + excluded.disk_used_sum,
          received_bytes = quarter.received_bytes + excluded.received_bytes,
          sent_bytes = quarter.sent_bytes + excluded.sent_bytes;
    return null;
  end $$;
  create trigger sandbox_metrics_minutes_added after insert on sandbox_metrics_minutes
    referencing new table as added for each statement execute function add_up_metrics_quarters();
`;

/**
 * Samples have a partition per day (UTC), so that old days can be dropped at once. Only the owner of the tables may make
 * and drop partitions, so the functions run as the owner.
 */
const samplePartitions = `
  create function make_metrics_partitions(first_day date, last_day date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    parent text;
    day date;
    partition text;
    storage text;
    made integer := 0;
  begin
    perform pg_advisory_xact_lock(7403113);
    foreach parent in array array['sandbox_metrics', 'sandbox_metrics_minutes', 'sandbox_metrics_quarters'] loop
      -- The row of a quarter is updated fourteen times. Free space keeps the updates in its page.
      storage := case parent when 'sandbox_metrics_quarters' then ' with (fillfactor = 50)' else '' end;
      for day in select generate_series(first_day, last_day, interval '1 day')::date loop
        partition := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
        continue when to_regclass(partition) is not null;
        execute format('create table %I partition of %I for values from (%L) to (%L)', partition, parent,
          day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00') || storage;
        made := made + 1;
      end loop;
    end loop;
    return made;
  end $$;

  create function drop_metrics_partitions(first_day_kept date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    partition text;
    dropped integer := 0;
  begin
    perform pg_advisory_xact_lock(7403113);
    for partition in
      select inhrelid::regclass::text from pg_inherits
       where inhparent in ('sandbox_metrics'::regclass, 'sandbox_metrics_minutes'::regclass,
                           'sandbox_metrics_quarters'::regclass)
         and to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') < first_day_kept
    loop
      execute format('drop table %s', partition);
      dropped := dropped + 1;
    end loop;
    return dropped;
  end $$;

  select make_metrics_partitions((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 2);
`;

/** Commands (exec) whose end becomes an event, from before their start until the event is recorded. */
const watchedRuns = `
  create table watched_runs (
    run_id text primary key,
    sandbox_id text not null references sandboxes on delete cascade,
    started_at text not null,
    deadline timestamptz(3) not null,
    -- The sandbox's agent has confirmed the start.
    has_started boolean not null default false,
    -- The time from which a process may ask the agent for the end. A process that asks moves it on.
    ask_at timestamptz(3) not null
  );
  create index watched_runs_due on watched_runs (ask_at);
  create index watched_runs_sandbox on watched_runs (sandbox_id);
`;
