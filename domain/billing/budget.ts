import { type Amount, decimal } from './money.ts';

export const limitTypes = ['soft', 'hard'] as const;
/** `soft` only alerts. `hard` also refuses creates and resumes once the amount is used up. */
export type LimitType = (typeof limitTypes)[number];

/** How often the usage of an account is compared with its budget. Each creation also checks it. */
export const checkIntervalMinutes = 5;
/** After a change of the amount, a threshold that was already reported is not reported again within this time. */
export const cooldownHours = 24;

export const maxAlertThresholds = 20;
export const maxNotificationEmails = 10;
/** The number of an account's messages that are mailed in 24 hours. Further messages are only kept and notified. */
export const maxMailedMessagesADay = 20;

/** A share of the amount at which the account is alerted. */
export interface AlertThreshold {
  /** A whole number from 1 to 100. */
  percent: number;
  enabled: boolean;
}

export const defaultAlertThresholds: readonly AlertThreshold[] = [50, 80, 100].map((percent) => ({
  percent,
  enabled: true,
}));

/** `exceeded`: the whole amount is used. */
export const thresholdTypes = ['warning', 'exceeded'] as const;
export type ThresholdType = (typeof thresholdTypes)[number];

export function toThresholdType(percent: number): ThresholdType {
  return percent >= 100 ? 'exceeded' : 'warning';
}

/** What a budget allows in one period of the subscription. */
export interface BudgetTerms {
  amount: Amount;
  limitType: LimitType;
  isActive: boolean;
  alertThresholds: readonly AlertThreshold[];
  /** When this amount was set, in Unix milliseconds. */
  amountSetAtMs: number;
}

/** The newest report of a threshold. Times in Unix milliseconds. */
export interface ThresholdReport {
  percent: number;
  periodStartMs: number;
  atMs: number;
}

/**
 * The thresholds to report now, in ascending order. Each threshold is reported once a period. After a change of the
 * amount it is reported again if usage is at or above it, at least `cooldownHours` after the last report.
 * @param used the exact cost of the period's usage so far
 * @param reports the newest report of each threshold of the account, including reports of deleted budgets
 */
export function thresholdsToReport(
  terms: BudgetTerms,
  used: Amount,
  reports: readonly ThresholdReport[],
  { periodStartMs, nowMs }: { periodStartMs: number; nowMs: number },
): number[] {
  if (!terms.isActive) return [];
  const isDue = (percent: number) => {
    const last = reports.find((report) => report.percent === percent);
    if (!last || last.periodStartMs !== periodStartMs) return true;
    return terms.amountSetAtMs > last.atMs && nowMs - last.atMs >= cooldownHours * 3_600_000;
  };
  return terms.alertThresholds
    .filter(({ percent, enabled }) => enabled && hasReached(used, terms.amount, percent) && isDue(percent))
    .map(({ percent }) => percent)
    .sort((a, b) => a - b);
}

/** Whether creates and resumes are refused. */
export function restricts({ isActive, limitType, amount }: BudgetTerms, used: Amount): boolean {
  return isActive && limitType === 'hard' && hasReached(used, amount, 100);
}

/** `used ≥ percent % of amount`, exactly. */
function hasReached(used: Amount, amount: Amount, percent: number): boolean {
  return decimal(used).times(100).gte(decimal(amount).times(percent));
}

/** The used part in percent, with two digits, rounded down: 100 means that the whole amount is used. */
export function percentageUsed(used: Amount, amount: Amount): Amount {
  return decimal(used).times(100).div(decimal(amount)).round(2, 0).toFixed(2);
}

/** The unused part of the amount, at least zero. Six digits, rounded down. */
export function computeRemaining(used: Amount, amount: Amount): Amount {
  const left = decimal(amount).minus(decimal(used));
  return left.lt(0) ? '0.000000' : left.round(6, 0).toFixed(6);
}

/** The exact sum of costs. Usage is rounded to the currency only when it becomes a line of an invoice. */
export function exactSum(costs: readonly Amount[]): Amount {
  return costs.reduce((sum, cost) => sum.plus(decimal(cost)), decimal('0')).toFixed();
}
