import { z } from 'zod';
import { currencyDigits } from '../../../domain/billing/currency.ts';
import { type Amount, maxAmount, readAmount } from '../../../domain/billing/money.ts';

/** An amount in a reply: a JSON number, made from the exact decimal. */
export const amount = () => z.number();

export const currency = () => z.string().meta({ pattern: '^[A-Z]{3}$' });

/** An amount in a body: above zero, with at most the digits of the currency. */
export function positiveAmount(code: string) {
  return z
    .number()
    .gt(0)
    .max(maxAmount)
    .transform((given, context): Amount => {
      const read = readAmount(given, code);
      if (read !== null) return read;
      const message = `must have at most ${currencyDigits(code)} decimal places (${code})`;
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    });
}
