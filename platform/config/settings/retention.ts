import { z } from 'zod';
import { emptyIsUnset, positive } from './field-types.ts';

/** How long rows are kept. */
export const retentionSettings = {
  /** How many days events and notifications are kept. */
  PLATFORM_EVENTS_KEPT_DAYS: positive(90),
  PLATFORM_NOTIFICATIONS_KEPT_DAYS: positive(90),
  /** Months that single usage events are kept after their month ends. Sums stay, and so do events that no invoice has yet. */
  PLATFORM_USAGE_EVENTS_KEPT_MONTHS: z.preprocess(emptyIsUnset, z.coerce.number().int().min(3).max(1200).default(24)),
  /** How many days deliveries of webhooks are kept; they go a week at a time. */
  PLATFORM_WEBHOOK_DELIVERIES_KEPT_DAYS: z.preprocess(emptyIsUnset, z.coerce.number().min(2).default(30)),
  /** How many days the row of an ended or deleted sandbox is kept. */
  PLATFORM_ENDED_SANDBOXES_KEPT_DAYS: positive(365),
  /**
   * How many of the newest rows are kept: of each account's events, notifications and ended sandboxes, and of each
   * caller's replies to idempotency keys.
   */
  PLATFORM_ROWS_KEPT_PER_ACCOUNT: positive(250_000),
};
