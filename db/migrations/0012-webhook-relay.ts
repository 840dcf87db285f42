import { Migration } from '@mikro-orm/migrations';

/**
 * The two halves of a relay's work are functions, because Postgres keeps their plans: planning these statements, with
 * every partition of the deliveries, takes longer than they run for the deliveries of a few milliseconds.
 */
export class Migration0012WebhookRelay extends Migration {
  override up(): void {
    this.addSql(claim);
    this.addSql(record);
  }
}

/** A kept plan may be older than most of the rows. One that Postgres made for an empty table would read all rows each time. */
const usesIndexes = 'set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off';

/**
 * `db/webhooks/webhook-queue.ts` describes it. `free_of_endpoint` and `free_of_account` have the number of further
 * deliveries by id, if it is not the usual one.
 */
const claim = `
  create function claim_webhook_deliveries(relay text, lease interval, most int, most_of_endpoint int,
    most_of_account int, free_of_endpoint jsonb, free_of_account jsonb)
    returns jsonb language plpgsql ${usesIndexes} as $$
  declare
    claimed_now jsonb;
  begin
    if most <= 0 then
      return '[]';
    end if;
    with recursive waiting(endpoint_id) as (
      (select endpoint_id from webhook_deliveries where relay_at is not null order by endpoint_id limit 1)
      union all
      select (select d.endpoint_id from webhook_deliveries d
               where d.relay_at is not null and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
        from waiting w where w.endpoint_id is not null
    ), open as (
      select endpoint_id, coalesce((free_of_endpoint->>endpoint_id)::int, most_of_endpoint) as slots from waiting
       where endpoint_id is not null
    ), chosen as materialized (
      -- Each claim considers other endpoints, at most 256, and at least four deliveries of each.
      select endpoint_id, least(slots, greatest(4, ceil(2.0 * most / count(*) over ())))::int as share
        from (select * from open where slots > 0 order by random() limit 256) w
    ), due as materialized (
      select delivery_id, created_at from (
        select d.delivery_id, d.created_at, d.account_id,
               row_number() over (partition by d.account_id order by d.turn) as nth
          from chosen c
         cross join lateral (
           select first.*, row_number() over () as turn from (
             select delivery_id, created_at, account_id from webhook_deliveries
              where endpoint_id = c.endpoint_id and relay_at <= now() + interval '1 millisecond'
              order by relay_at limit c.share for update skip locked) first) d) picked
       where nth <= coalesce((free_of_account->>account_id)::int, most_of_account) order by nth limit most
    ), claimed as (
      update webhook_deliveries d
         set holder = relay, relay_at = clock_timestamp() + lease, status = 'delivering'
        from due where d.delivery_id = due.delivery_id and d.created_at = due.created_at
      returning d.delivery_id, d.created_at, d.account_id, d.endpoint_id, d.event_id, d.event_type, d.event_at, d.data,
                d.status, d.attempt_number, d.round, d.round_from
    )
    select coalesce(jsonb_agg(jsonb_build_object('deliveries', d.deliveries, 'endpoint',
             (select to_jsonb(w) from webhook_endpoints w where w.endpoint_id = d.endpoint_id and w.is_active
                 and (w.user_id is null
                   or exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled'))))), '[]')
      into claimed_now
      from (select c.endpoint_id, jsonb_agg(c) as deliveries from claimed c group by c.endpoint_id) d;
    return claimed_now;
  end $$;
`;

/**
 * `db/webhooks/webhook-results.ts` describes it. Endpoints are locked in the order of their ids, so that concurrent calls
 * do not deadlock.
 */
const record = `
  create function record_webhook_results(results jsonb, kept_attempts int, unhealthy_after int, disabled_after interval)
    returns jsonb language plpgsql ${usesIndexes} as $$
  declare
    recorded jsonb;
  begin
    if jsonb_array_length(results) = 0 then
      return '{"unfinished": [], "changed": []}';
    end if;
    with written as (
      update webhook_deliveries d
         set status = r.status, relay_at = null, holder = r.next_holder, next_retry_at = r.next_retry_at,
             error_message = r.error_message, delivered_at = r.delivered_at, failed_at = r.failed_at,
             http_status_code = case when r.attempted then r.http_status_code else d.http_status_code end,
             attempt_number = d.attempt_number + r.attempted::int,
             max_attempts = coalesce(r.max_attempts, d.max_attempts),
             attempts = case when not r.attempted then d.attempts
               else jsonb_path_query_array(d.attempts, '$[last - $older to last]',
                 jsonb_build_object('older', kept_attempts - 2)) || r.attempt end
        from jsonb_to_recordset(results) as r(nth int, delivery_id text, created_at timestamptz, holder text,
               next_holder text, is_first boolean, status text, attempted boolean, attempt jsonb, http_status_code int,
               error_message text, max_attempts int, started_at timestamptz, next_retry_at timestamptz,
               delivered_at timestamptz, failed_at timestamptz)
       where d.delivery_id = r.delivery_id and d.created_at = r.created_at and d.holder = r.holder
      returning d.endpoint_id, d.delivery_id, r.nth, r.next_holder, r.is_first, r.status, r.attempted,
                r.http_status_code, r.error_message, r.started_at
    ), ended as (
      select *, max(nth) filter (where attempted and error_message is null) over (partition by endpoint_id)
                  as last_success
        from written where status <> 'pending'
    ), counts as (
      select endpoint_id, count(*) filter (where is_first) as begun,
             count(*) filter (where status = 'delivered') as delivered,
             count(*) filter (where status = 'failed') as failed, count(last_success) > 0 as succeeded,
             -- Only failures after the last success count for the health.
             count(*) filter (where attempted and nth > coalesce(last_success, -1)) as failures,
             max(started_at) as last_at, max(started_at) filter (where error_message is null) as last_success_at,
             min(started_at) filter (where nth > coalesce(last_success, -1)) as first_failure_at,
             max(started_at) filter (where error_message is not null) as last_failure_at,
             coalesce(bool_or(attempted and http_status_code = 410), false) as gone
        from ended group by endpoint_id
    ), locked as materialized (
      select endpoint_id, is_active, failing_since, consecutive_failures from webhook_endpoints
       where endpoint_id in (select endpoint_id from counts) order by endpoint_id for update
    ), judged as (
      select c.*, c.succeeded and l.consecutive_failures >= unhealthy_after as recovers,
             l.is_active and (c.gone or (c.failures > 0 and not c.succeeded
               and coalesce(l.failing_since < now() - disabled_after, false))) as disables
        from counts c join locked l using (endpoint_id)
    ), counted as (
      update webhook_endpoints w
         set total_deliveries = w.total_deliveries + j.begun,
             successful_deliveries = w.successful_deliveries + j.delivered,
             failed_deliveries = w.failed_deliveries + j.failed,
             last_delivery_at = greatest(w.last_delivery_at, j.last_at),
             last_success_at = greatest(w.last_success_at, j.last_success_at),
             last_failure_at = greatest(w.last_failure_at, j.last_failure_at),
             consecutive_failures = case when j.succeeded then 0 else w.consecutive_failures end + j.failures,
             failing_since = case when j.failures = 0 and j.succeeded then null
               when j.succeeded then j.first_failure_at else coalesce(w.failing_since, j.first_failure_at) end,
             is_active = w.is_active and not j.disables,
             disabled_reason = case when not j.disables then w.disabled_reason
               when j.gone then 'gone' else 'failing' end
        from judged j where w.endpoint_id = j.endpoint_id
      returning w.endpoint_id, w.account_id, w.user_id, w.url, w.disabled_reason, j.disables, j.recovers
    )
    select jsonb_build_object(
      'unfinished', coalesce((select jsonb_agg(w.delivery_id) from written w where w.next_holder is not null), '[]'),
      'changed', coalesce((select jsonb_agg(c) from counted c where c.disables or c.recovers), '[]'))
      into recorded;
    return recorded;
  end $$;
`;
