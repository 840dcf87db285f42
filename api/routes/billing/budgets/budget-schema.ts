import { z } from 'zod';
import type { Budget } from '../../../../db/billing/budget-rows.ts';
import { emailKey } from '../../../../domain/accounts/email-address.ts';
import {
  type AlertThreshold,
  limitTypes,
  maxAlertThresholds,
  maxNotificationEmails,
} from '../../../../domain/billing/budget.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { readEmailField } from '../../../schemas/email-field.ts';
import { counted, time, withDefault } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';

const percent = () => z.int().min(1).max(100).describe('Of the amount');

export const thresholdSchema = z.object({ percent: percent(), enabled: z.boolean() });

export const budgetSchema = z
  .object({
    id: z.int(),
    account_id: z.string(),
    budget_amount: amount().describe('The amount for usage in one period of the subscription'),
    currency: currency(),
    alert_thresholds: z.array(thresholdSchema),
    limit_type: z.enum(limitTypes),
    notification_emails: z.array(z.string()),
    is_active: z.boolean(),
    is_restricted: z.boolean().describe('True: a hard limit is used up, and creates and resumes are refused'),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'Budget' });

export function presentBudget(budget: Budget): z.output<typeof budgetSchema> {
  return {
    id: budget.id,
    account_id: budget.accountId,
    budget_amount: toJsonNumber(budget.amount),
    currency: budget.currency,
    alert_thresholds: presentThresholds(budget.alertThresholds),
    limit_type: budget.limitType,
    notification_emails: [...budget.notificationEmails],
    is_active: budget.isActive,
    is_restricted: budget.isRestricted,
    created_at: budget.createdAt,
    updated_at: budget.updatedAt,
  };
}

export const presentThresholds = (thresholds: readonly AlertThreshold[]) =>
  thresholds.map(({ percent, enabled }) => ({ percent, enabled }));

/** Thresholds for alerts. Typed clients send an empty list for an absent field, so an empty list counts as absent. */
export const thresholdsField = z
  .preprocess(
    (given) => (Array.isArray(given) && given.length === 0 ? undefined : given),
    counted(
      maxAlertThresholds,
      'thresholds',
      z.array(z.object({ percent: percent(), enabled: withDefault(z.boolean(), true) })).max(maxAlertThresholds),
    )
      .refine((given) => new Set(given.map((each) => each.percent)).size === given.length, 'names a percentage twice')
      .nullish(),
  )
  .optional()
  .transform((given) => given ?? undefined);

export const emailsField = counted(
  maxNotificationEmails,
  'addresses',
  z.array(z.string().max(1024)).max(maxNotificationEmails),
).describe("Addresses that get mails in addition to the account's own address");

/**
 * The addresses in the form in which they are mailed to, without duplicates.
 * @throws {AppError} `validation_failed`
 */
export function readEmails(given: readonly string[]): string[] {
  const read = given.map((text, index) => readEmailField(`notification_emails.${index}`, text));
  return [...new Map(read.map((address) => [emailKey(address), address])).values()];
}
