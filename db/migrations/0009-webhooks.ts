import { Migration } from '@mikro-orm/migrations';

/** Webhook endpoints and their deliveries. */
export class Migration0009Webhooks extends Migration {
  override up(): void {
    this.addSql(endpoints);
    this.addSql(deliveries);
    this.addSql(deliveryPartitions);
    this.addSql(deliveredEvents);
  }
}

const endpoints = `
  create table webhook_endpoints (
    endpoint_id text primary key,
    account_id text not null references accounts,
    user_id text references users,
    url text not null,
    event_types text[] not null,
    description text not null default '',
    is_active boolean not null default true,
    disabled_reason text,
    timeout_seconds integer not null default 30,
    max_retries integer not null default 3,
    key_number integer not null default 1,
    public_key text not null,
    sealed_secret text,
    secret_key_number integer not null default 1,
    previous_key_number integer,
    previous_sealed_secret text,
    previous_secret_key_number integer,
    previous_until timestamptz(3),
    consecutive_failures integer not null default 0,
    failing_since timestamptz(3),
    total_deliveries bigint not null default 0,
    successful_deliveries bigint not null default 0,
    failed_deliveries bigint not null default 0,
    last_delivery_at timestamptz(3),
    last_success_at timestamptz(3),
    last_failure_at timestamptz(3),
    created_at timestamptz(3) not null default clock_timestamp(),
    updated_at timestamptz(3) not null default clock_timestamp()
  );
  create index webhook_endpoints_account on webhook_endpoints (account_id, created_at desc, endpoint_id);
  create index webhook_endpoints_user on webhook_endpoints (user_id);
`;

const deliveries = `
  create table webhook_deliveries (
    delivery_id text not null,
    created_at timestamptz(3) not null default clock_timestamp(),
    endpoint_id text not null,
    account_id text not null,
    event_id text not null,
    event_type text not null,
    event_at timestamptz(3) not null,
    data jsonb not null,
    status text not null default 'pending',
    http_status_code integer,
    attempt_number integer not null default 0,
    max_attempts integer not null,
    next_retry_at timestamptz(3),
    delivered_at timestamptz(3),
    failed_at timestamptz(3),
    error_message text,
    attempts jsonb not null default '[]',
    -- The time from which a relay may take it. Null: a workflow has it, or it has ended.
    relay_at timestamptz(3) default clock_timestamp(),
    -- The relay or the workflow. Only the holder may write the row.
    holder text,
    round integer not null default 1,
    -- Attempts made before this round.
    round_from integer not null default 0,
    primary key (delivery_id, created_at)
  ) partition by range (created_at);
  create table webhook_deliveries_default partition of webhook_deliveries default;
  create index webhook_deliveries_endpoint on webhook_deliveries (endpoint_id, created_at desc, delivery_id);
  create index webhook_deliveries_account on webhook_deliveries (account_id, created_at);
  create index webhook_deliveries_due on webhook_deliveries (endpoint_id, relay_at) where relay_at is not null;
`;

/**
 * Deliveries have a partition per week (UTC), so that old ones can be dropped at once. The default partition takes rows if
 * the maintenance has not made a partition. Only the owner of the tables may make and drop partitions, so the functions
 * run as the owner.
 */
const deliveryPartitions = `
  create function make_webhook_partitions(first_day date, last_day date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    week date;
    partition text;
    made integer := 0;
  begin
    perform pg_advisory_xact_lock(7403114);
    for week in select generate_series(date_trunc('week', first_day::timestamp), last_day, interval '1 week')::date loop
      partition := format('webhook_deliveries_%s', to_char(week, 'YYYYMMDD'));
      continue when to_regclass(partition) is not null;
      -- A week that has begun in the default partition stays there.
      continue when exists (select 1 from webhook_deliveries_default
        where created_at >= (week || ' 00:00:00+00')::timestamptz and created_at < ((week + 7) || ' 00:00:00+00')::timestamptz);
      execute format('create table %I partition of webhook_deliveries for values from (%L) to (%L)', partition,
        week || ' 00:00:00+00', (week + 7) || ' 00:00:00+00');
      made := made + 1;
    end loop;
    return made;
  end $$;

  create function drop_webhook_partitions(first_day_kept date) returns integer language plpgsql
    security definer set search_path = public, pg_temp as $$
  declare
    partition text;
    dropped integer := 0;
  begin
    perform pg_advisory_xact_lock(7403114);
    for partition in
      select inhrelid::regclass::text from pg_inherits
       where inhparent = 'webhook_deliveries'::regclass and inhrelid <> 'webhook_deliveries_default'::regclass
         and to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') + 7 <= first_day_kept
    loop
      execute format('drop table %s', partition);
      dropped := dropped + 1;
    end loop;
    return dropped;
  end $$;

  select make_webhook_partitions((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 21);
`;

/**
 * A trigger adds the deliveries in the transaction that records the event, so they always exist together. Events of commands
 * (exec) are only for webhooks that list them; `*` does not include them.
 */
const deliveredEvents = `
  create function deliver_event() returns trigger language plpgsql as $$
  declare
    family text := split_part(new.type, '.', 1);
    subscriptions text[] := array[new.type, family || '.*'] || case when family = 'exec' then '{}' else '{*}' end::text[];
  begin
    insert into webhook_deliveries (delivery_id, endpoint_id, account_id, event_id, event_type, event_at, data, max_attempts)
    select 'whd-' || replace(gen_random_uuid()::text, '-', ''), w.endpoint_id, w.account_id, new.event_id, new.type,
           new.created_at, new.data, w.max_retries + 1
      from webhook_endpoints w
     where w.account_id = new.account_id and w.is_active
       and w.event_types && subscriptions
       and (w.user_id is null or (w.user_id = new.user_id
         and exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled')));
    if found then
      notify webhook_deliveries;
    end if;
    return null;
  end $$;
  create trigger events_delivered after insert on events for each row execute function deliver_event();
`;
