import { z } from 'zod';
import { emptyIsUnset, text, textOr } from './field-types.ts';

/** Plans, the payment processor, receipts, and used-up quotas and budgets. */
export const billingSettings = {
  /** A JSON file in the form of `db/billing/plans.json`. Empty: that file. */
  PLATFORM_PLANS_FILE: text(),
  /**
   * What happens to running sandboxes when a monthly quota is used up: `refuse` leaves them running until their
   * timeout, `pause` pauses them within an hour. With both, the user cannot create or resume sandboxes.
   */
  PLATFORM_USED_UP_QUOTA: z.preprocess(emptyIsUnset, z.enum(['refuse', 'pause']).default('refuse')),
  /** The same for the hard limit of an account's budget: `pause` pauses the account's sandboxes within five minutes. */
  PLATFORM_USED_UP_BUDGET: z.preprocess(emptyIsUnset, z.enum(['refuse', 'pause']).default('refuse')),
  /**
   * The payment processor: Stripe, or a service with its API. The publishable key goes to browsers; the files have the
   * secret key, and the secret that notifications are signed with. Empty: there is no processor, and nothing can be paid.
   */
  PLATFORM_STRIPE_PUBLISHABLE_KEY: text(),
  PLATFORM_STRIPE_SECRET_KEY_FILE: text(),
  PLATFORM_STRIPE_WEBHOOK_SECRET_FILE: text(),
  PLATFORM_STRIPE_API_URL: textOr('https://api.stripe.com').pipe(z.url({ protocol: /^https?$/ })),
  /** The processor's script, which browsers load on the page that adds a card. */
  PLATFORM_STRIPE_SCRIPT_URL: textOr('https://js.stripe.com/v3/').pipe(z.url({ protocol: /^https?$/ })),
  /**
   * `on`: plans are charged, and the platform refuses what is not paid for. `off`: usage is metered and shown; nothing
   * is charged or refused. Empty: `on` with a payment processor.
   */
  PLATFORM_BILLING: z.preprocess(emptyIsUnset, z.enum(['on', 'off']).optional()),
  /** The issuer at the top of receipts: name and address, with `\n` between lines. Empty: the URL of the API. */
  PLATFORM_INVOICE_ISSUER: text(),
};
