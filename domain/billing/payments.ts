/**
 * A charge as the payment processor tells it.
 * - `requires_confirmation`: prepared; no money has moved
 * - `processing`: the outcome is not known yet
 * - `requires_action`: the owner of the card has to confirm it
 * - `requires_payment_method`: it was declined
 */
export const chargeStatuses = [
  'requires_payment_method',
  'requires_confirmation',
  'requires_action',
  'processing',
  'succeeded',
  'canceled',
] as const;
export type ChargeStatus = (typeof chargeStatuses)[number];

export interface ChargeState {
  status: ChargeStatus;
  /** The processor's code, such as `insufficient_funds`. Null: nothing has failed. */
  failureReason: string | null;
  amountRefunded?: string;
}

/** Statuses of newer versions of the processor count as not known yet. */
export function chargeStateOf(status: string, failureReason: string | null): ChargeState {
  const known = chargeStatuses.find((each) => each === status);
  return { status: known ?? 'processing', failureReason: failureReason?.slice(0, 100) ?? null };
}

export type ChargeOutcome = 'succeeded' | 'failed' | 'unknown';

/** The outcome of a confirmed charge. A card that asks for its owner has failed, because the charge runs without the owner. */
export function outcomeOf(status: ChargeStatus): ChargeOutcome {
  if (status === 'succeeded') return 'succeeded';
  return status === 'processing' || status === 'requires_confirmation' ? 'unknown' : 'failed';
}

/**
 * A refund as the platform keeps it.
 * - `requested`: the processor was asked, or is about to be; the outcome is not known
 * - `pending`: the processor has accepted it, and the bank works on it
 */
export const refundStatuses = ['requested', 'pending', 'succeeded', 'failed'] as const;
export type RefundStatus = (typeof refundStatuses)[number];

/** The status of a refund that the processor has. */
export function refundStatusOf(status: string | null): RefundStatus {
  if (status === 'succeeded') return 'succeeded';
  return status === 'failed' || status === 'canceled' ? 'failed' : 'pending';
}

/** How long somebody has to add a card, once they have begun to. */
export const setupHours = 24;
/** How long a link to the page that adds a card works. */
export const cardLinkMinutes = 60;
/** Begun and not finished ones of an account. */
export const maxOpenSetups = 20;
/** Payment methods of an account. */
export const maxMethods = 20;
