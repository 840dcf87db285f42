import { Big } from 'big.js';
import { currencyDigits } from './currency.ts';

/**
 * Amounts of money are decimals as strings, in the form of Postgres's NUMERIC: exact, and the same in JSON. Prices of
 * usage have more digits than the currency. Amounts on an invoice have exactly the digits of the currency.
 */
export type Amount = string;

/**
 * Larger amounts are refused everywhere. This limit is far below the range of NUMERIC(18, 3) and of a safe integer of
 * cents.
 */
export const maxAmount = 1_000_000_000;

/**
 * Enough digits for every quotient. Two different quotients of amounts and milliseconds are more than 10^-40 apart, and
 * so are a quotient and a tie. So rounding the quotient gives the same result as rounding the true value.
 */
const divisionDigits = 60;

const Exact = Big();
Exact.DP = divisionDigits;
Exact.RM = Big.roundHalfEven;

const plain = /^-?\d{1,30}(\.\d{1,60})?$/;

/** @throws {RangeError} when `text` is not a plain decimal. Exponents, a `+` sign, `NaN` and `Infinity` are refused. */
export function decimal(text: Amount): Big {
  if (!plain.test(text)) throw new RangeError(`${JSON.stringify(text)} is not a decimal`);
  return new Exact(text);
}

/** The amount with exactly the digits of the currency, rounded half to even. */
export function inUnits(value: Big, currency: string): Amount {
  const rounded = value.round(currencyDigits(currency), Big.roundHalfEven);
  // Big keeps the sign of a negative zero.
  return (rounded.eq(0) ? new Exact(0) : rounded).toFixed(currencyDigits(currency));
}

/** @param amounts of one currency, with at most its digits */
export function sumAmounts(amounts: readonly Amount[], currency: string): Amount {
  return inUnits(
    amounts.reduce((sum, amount) => sum.plus(decimal(amount)), new Exact(0)),
    currency,
  );
}

/** The sum with all digits. */
export function sumExact(amounts: readonly Amount[]): Amount {
  return amounts.reduce((sum, amount) => sum.plus(decimal(amount)), new Exact(0)).toFixed();
}

export function difference(from: Amount, less: Amount, currency: string): Amount {
  return inUnits(decimal(from).minus(decimal(less)), currency);
}

export function negated(amount: Amount, currency: string): Amount {
  return inUnits(decimal(amount).times(-1), currency);
}

/** The cost of a quantity at a unit price. Rounded once. */
export function computeCost(quantity: string, unitPrice: Amount, currency: string): Amount {
  return inUnits(decimal(quantity).times(decimal(unitPrice)), currency);
}

/** `amount × part ÷ whole`. Rounded once. @param part, whole are integers, for example milliseconds */
export function computeShare(amount: Amount, part: number, whole: number, currency: string): Amount {
  if (!Number.isSafeInteger(part) || !Number.isSafeInteger(whole) || whole <= 0) {
    throw new RangeError(`${part} of ${whole} is no share`);
  }
  return inUnits(decimal(amount).times(part).div(whole), currency);
}

/** Exact if the quotient has at most 60 decimals, as for a divisor with only the prime factors 2 and 5. */
export function quotient(amount: string, divisor: number): string {
  return decimal(amount).div(divisor).toFixed();
}

/** @param rate a decimal as a string: `0.19` is 19 % */
export function taxOn(amount: Amount, rate: string, currency: string): Amount {
  return inUnits(decimal(amount).times(decimal(rate)), currency);
}

/** -1, 0 or 1 if `a` is less than, equal to or greater than `b`. */
export function compare(a: Amount, b: Amount): -1 | 0 | 1 {
  return decimal(a).cmp(decimal(b));
}

export const isZero = (amount: Amount): boolean => compare(amount, '0') === 0;
export const isPositive = (amount: Amount): boolean => compare(amount, '0') > 0;
export const lesser = (a: Amount, b: Amount): Amount => (compare(a, b) <= 0 ? a : b);
export const greater = (a: Amount, b: Amount): Amount => (compare(a, b) >= 0 ? a : b);

/**
 * An amount in the form of payment processors: an integer of the smallest unit. @throws {RangeError} when it is not an
 * integer
 */
export function toSmallestUnit(amount: Amount, currency: string): number {
  const units = decimal(amount).times(new Exact(10).pow(currencyDigits(currency)));
  const whole = Number(units.toFixed(0));
  if (!units.eq(units.round(0)) || !Number.isSafeInteger(whole)) {
    throw new RangeError(`${amount} ${currency} has more digits than the currency`);
  }
  return whole;
}

/** @throws {RangeError} when `units` is not a safe integer */
export function fromSmallestUnit(units: number, currency: string): Amount {
  if (!Number.isSafeInteger(units)) throw new RangeError(`${units} is no integer`);
  return inUnits(new Exact(units).div(new Exact(10).pow(currencyDigits(currency))), currency);
}

/**
 * Reads an amount from a person or a program, given as a JSON number or as a string.
 * @returns null when it is not an amount of the currency: not finite, negative, too large, or with too many decimals
 */
export function readAmount(given: number | string, currency: string): Amount | null {
  return readDecimal(given, currencyDigits(currency));
}

/**
 * Reads a decimal that is not negative. A JSON number counts as its shortest decimal, which is the sender's notation.
 * @param digits the maximum number of decimals
 * @returns null when the value is not such a decimal
 */
export function readDecimal(given: number | string, digits: number): Amount | null {
  const text = typeof given === 'number' ? shortestDecimal(given) : given.trim();
  if (text === null || !plain.test(text) || text.startsWith('-')) return null;
  const value = decimal(text);
  if (value.gt(maxAmount) || !value.eq(value.round(digits))) return null;
  return value.toFixed(digits);
}

function shortestDecimal(given: number): string | null {
  return Number.isFinite(given) && Math.abs(given) <= maxAmount ? new Exact(given).toFixed() : null;
}

/** The amount as a JSON number for replies. The platform never computes with it. */
export function toJsonNumber(amount: Amount): number {
  return Number(amount);
}
