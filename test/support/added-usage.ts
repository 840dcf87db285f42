import type { EntityManager } from '@mikro-orm/postgresql';
import { newId } from '../../db/core/new-id.ts';
import type { AccountId } from '../../domain/ids.ts';

/** Adds usage that costs exactly `cost`. @param at its end, by default now */
export async function addUsage(em: EntityManager, accountId: AccountId, cost: string, at = new Date()): Promise<void> {
  // An event must not extend over the end of an hour.
  const until = Math.max(at.getTime(), Math.floor(at.getTime() / 3_600_000) * 3_600_000 + 2);
  const times = [until - 1, until].map((ms) => new Date(ms).toISOString());
  await em.fork().execute(
    `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount,
                               unit_price) values (?, ?, '', '', 'cpu_seconds', ?, ?, 1000, ?::numeric)`,
    [newId('sandbox'), accountId, ...times, cost],
  );
}

/**
 * Moves the period of an account's subscription, which is a month, into the past: it began `age` ago.
 * @param age less than 28 days, or more than a month: in between, the length of the month decides
 */
export async function ageAccount(em: EntityManager, accountId: AccountId, age: string): Promise<void> {
  await em.fork().execute(
    `update subscriptions set anchor = started.at, period_start = started.at, period_end = started.at + interval '1 month'
       from (select date_trunc('milliseconds', now() - ?::interval) as at) started where account_id = ?`,
    [age, accountId],
  );
}

/** Moves the period of an account's subscription, which is a month, so that it ends in `rest`, also on the last days of a month. */
export async function endPeriodIn(em: EntityManager, accountId: AccountId, rest: string): Promise<void> {
  // The anchor is in January of the previous year: January has every day on which a period can end.
  await em.fork().execute(
    `update subscriptions set anchor = (ends - months) at time zone 'UTC', period_end = ends at time zone 'UTC',
                              period_start = (ends - months + (months - interval '1 month')) at time zone 'UTC'
       from (select date_trunc('milliseconds', (now() + ?::interval) at time zone 'UTC') as ends) e,
            lateral (select (extract(month from ends) + 11) * interval '1 month' as months) m
      where account_id = ?`,
    [rest, accountId],
  );
}
