import type { EntityManager } from '@mikro-orm/postgresql';
import type { UsagePrices } from '../../domain/usage/types.ts';
import { usagePrices } from '../billing/usage-prices.ts';
import { query } from '../core/query.ts';
import { millisecondsSql, partsByPrice } from './usage-events.ts';

/** Partitions for usage events exist this many days in advance. */
const daysAhead = 62;
/** The lock that lets only one process at a time record measured usage. */
const measuredLock = 7_403_117;

/** The result of one round. */
export interface UsageUpkeep {
  partitionsMade: number;
  partitionsDropped: number;
  eventsRecorded: number;
  eventsSummed: number;
}

/**
 * Makes partitions for the coming months, records the disks of paused sandboxes and measured usage, moves events to the
 * sums of hours and days, and drops events of months that ended `keptMonths` ago.
 */
export async function keepUsage(em: EntityManager, keptMonths: number): Promise<UsageUpkeep> {
  const partitionsMade = await makePartitions(em);
  const eventsRecorded = (await recordPausedUsage(em)) + (await recordMeasuredUsage(em));
  const eventsSummed = await rollUpUsage(em);
  return { partitionsMade, eventsRecorded, eventsSummed, partitionsDropped: await dropOldUsage(em, keptMonths) };
}

/**
 * Drops the events of each month that ended `keptMonths` ago or earlier, unless some of them are not in the sums or not
 * on an invoice yet. The sums stay.
 * @returns the number of dropped months
 */
export async function dropOldUsage(em: EntityManager, keptMonths: number): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await query(tx, "set local lock_timeout = '5s'");
    const [dropped] = await query<{ count: number }>(
      tx,
      `select drop_usage_partitions(((now() at time zone 'UTC') - make_interval(months => ?::int))::date) as count`,
      [keptMonths],
    );
    return dropped!.count;
  });
}

/** Does not wait for blocking queries. The next round tries again, weeks before the partition is needed. */
async function makePartitions(em: EntityManager): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await query(tx, "set local lock_timeout = '5s'");
    const today = "(now() at time zone 'UTC')::date";
    const [made] = await query<{ count: number }>(
      tx,
      `select make_usage_partitions(${today}, ${today} + ${daysAhead}) as count`,
    );
    return made!.count;
  });
}

/**
 * Records the disks of sandboxes that stay paused, in one statement, so that their workflows need not wake up. A
 * sandbox that changes at this moment is left out; its own transition records it.
 * @returns the number of recorded events
 */
export async function recordPausedUsage(em: EntityManager): Promise<number> {
  const [row] = await query<{ recorded: number }>(
    em.fork(),
    `with paused as (
       select sandbox_id, account_id, owner_user_id, project_id, storage_gb, metered_until,
              statement_timestamp()::timestamptz(3) as until
         from sandboxes where phase_kind = 'paused' and metered_until < statement_timestamp() - interval '1 second'
          for no key update skip locked
     ), closed as (
       update sandboxes s set metered_until = p.until from paused p where s.sandbox_id = p.sandbox_id
     ), recorded as (
       insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount,
                                 unit_price)
       select paused.sandbox_id, paused.account_id, paused.owner_user_id, paused.project_id, used.usage_type, part.since,
              part.until, paused.storage_gb * ${millisecondsSql('part')}, price.unit_price
         from paused
        cross join lateral generate_series(date_trunc('hour', metered_until, 'UTC'), paused.until, interval '1 hour') hour
        cross join lateral (
          select 'sandbox_storage_gb_seconds' as usage_type, greatest(hour, metered_until) as since,
                 least(hour + interval '1 hour', paused.until) as until
        ) used
        ${partsByPrice}
        where used.since < used.until
       on conflict do nothing returning 1
     )
     select count(*)::int as recorded from recorded`,
  );
  return row!.recorded;
}

/**
 * Lets the prices of this process apply from now on. What was measured so far is recorded at the old ones first.
 * @returns whether they are other prices
 */
export async function adoptUsagePrices(em: EntityManager, prices = usagePrices): Promise<boolean> {
  const [found] = await query<{ differ: boolean }>(
    em.fork(),
    `select exists (select from unnest(?::text[], ?::numeric[]) own(usage_type, unit_price)
       left join usage_prices p using (usage_type) where p.unit_price is distinct from own.unit_price) as differ`,
    listed(prices),
  );
  if (found!.differ) await recordMeasuredUsage(em, prices);
  return found!.differ;
}

const listed = ({ prices }: UsagePrices) => [
  `{${Object.keys(prices).join(',')}}`,
  `{${Object.values(prices).join(',')}}`,
];

/**
 * Records measured usage since the last round: the traffic, processor time and memory of sandboxes, by their minutes,
 * and the images of templates. An event covers a part of one hour. Minutes of one sandbox are stored in order, so the
 * last recorded minute determines which ones are new.
 * @returns the number of recorded events
 */
export async function recordMeasuredUsage(em: EntityManager, prices = usagePrices): Promise<number> {
  const insertPrices = 'insert into usage_prices select * from unnest(?::text[], ?::numeric[]) on conflict';
  return em.fork().transactional(async (tx) => {
    await query(tx, `select pg_advisory_xact_lock(${measuredLock})`);
    await query(tx, `${insertPrices} do nothing`, listed(prices));
    const [row] = await query<{ recorded: number }>(
      tx,
      `
      with fresh as (
        select s.sandbox_id, s.account_id, s.owner_user_id, s.project_id, date_trunc('hour', m.sampled_at, 'UTC') as hour,
               -- The minute in which a sandbox is made begins before it, and perhaps before the period of its invoice.
               greatest(min(m.sampled_at),
                        case when min(s.created_at) < min(m.sampled_at) + interval '1 minute' then min(s.created_at) end) as first, max(m.sampled_at) as last,
               sum(m.received_bytes + m.sent_bytes) as bytes,
               -- Samples are five seconds apart.
               round(sum(m.cpu_used_pct_sum * m.cpu_count) * 50) as core_ms,
               round(sum(m.mem_used_sum) * 5000 / 1048576) as mb_ms
          from sandboxes s
          left join usage_cursors c on c.resource_id = s.sandbox_id
          cross join lateral (
            select * from sandbox_metrics_minutes m
             where m.sandbox_id = s.sandbox_id and m.sampled_at > greatest(c.metered_until, now() - interval '8 days')
          ) m
         where s.phase_kind = 'running' or s.updated_at > now() - interval '8 days'
         group by 1, 2, 3, 4, 5
      ), moved as (
        insert into usage_cursors (resource_id, metered_until)
        select sandbox_id, max(last) from fresh group by 1
        on conflict (resource_id) do update set metered_until = excluded.metered_until
      ), recorded as (
        insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end,
                                  amount, unit_price)
        select f.sandbox_id, f.account_id, f.owner_user_id, f.project_id, used.usage_type, f.first, f.last + interval '1 minute',
               used.amount, coalesce(p.unit_price, 0)
          from fresh f
          cross join lateral (values ('traffic_gb', f.bytes), ('cpu_seconds_used', f.core_ms),
                                     ('ram_gb_seconds_used', f.mb_ms)) used(usage_type, amount)
          left join usage_prices p on p.usage_type = used.usage_type
         where used.amount > 0
        on conflict do nothing returning 1
      )
      select count(*)::int as recorded from recorded`,
    );
    const [templates] = await query<{ recorded: number }>(
      tx,
      `select coalesce(sum(record_template_storage(c.resource_id, clock_timestamp())), 0)::int as recorded
         from usage_cursors c where c.resource_id in (select template_id from templates)`,
    );
    // Afterwards, because what was used before a change of prices has the old ones.
    await query(tx, `${insertPrices} (usage_type) do update set unit_price = excluded.unit_price`, listed(prices));
    return row!.recorded + templates!.recorded;
  });
}

/** Moves pending events to the sums in batches. @returns the number of moved events */
export async function rollUpUsage(em: EntityManager, atOnce = 20_000): Promise<number> {
  for (let moved = 0; ; ) {
    const [row] = await query<{ moved: number }>(em.fork(), 'select roll_up_usage(?) as moved', [atOnce]);
    moved += row!.moved;
    if (row!.moved < atOnce) return moved;
  }
}
