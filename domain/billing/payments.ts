/**
 * The status of a charge at the payment processor.
 * - `requires_confirmation`: prepared, and no money has moved
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
  /** The processor's code, such as `insufficient_funds`. Null: no failure. */
  failureReason: string | null;
  amountRefunded?: string;
}

/** An unknown status, from a newer version of the processor, counts as an unknown outcome. */
export function toChargeState(status: string, failureReason: string | null): ChargeState {
  const known = chargeStatuses.find((each) => each === status);
  return { status: known ?? 'processing', failureReason: failureReason?.slice(0, 100) ?? null };
}

export type ChargeOutcome = 'succeeded' | 'failed' | 'unknown';

/**
 * The outcome of a confirmed charge. A charge that requires its owner's action has failed, because it runs without the
 * owner.
 */
export function toChargeOutcome(status: ChargeStatus): ChargeOutcome {
  if (status === 'succeeded') return 'succeeded';
  return status === 'processing' || status === 'requires_confirmation' ? 'unknown' : 'failed';
}

/**
 * The platform's status of a refund.
 * - `requested`: the processor was asked, or is about to be asked, and the outcome is not known
 * - `pending`: the processor has accepted it, and the bank works on it
 */
export const refundStatuses = ['requested', 'pending', 'succeeded', 'failed'] as const;
export type RefundStatus = (typeof refundStatuses)[number];

/** The platform's status for a processor's refund status. */
export function toRefundStatus(status: string | null): RefundStatus {
  if (status === 'succeeded') return 'succeeded';
  return status === 'failed' || status === 'canceled' ? 'failed' : 'pending';
}

/** How long a person has to finish adding a card. */
export const setupHours = 24;
/** How long a link to the page that adds a card works. */
export const cardLinkMinutes = 60;
/** The maximum number of unfinished setups of an account. */
export const maxOpenSetups = 20;
/** The maximum number of payment methods of an account. */
export const maxMethods = 20;
