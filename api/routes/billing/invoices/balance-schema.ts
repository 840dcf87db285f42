import { z } from 'zod';
import type { BalanceChange } from '../../../../db/billing/ledger.ts';
import { ledgerKinds } from '../../../../domain/billing/ledger.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { time } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';

export const balanceChangeSchema = z
  .object({
    transaction_id: z.string(),
    account_id: z.string(),
    kind: z.enum(ledgerKinds),
    description: z.string(),
    amount: amount().describe('Positive: credit was added'),
    currency: currency(),
    created_at: time(),
  })
  .meta({ id: 'BalanceChange' });

export function presentBalanceChange(change: BalanceChange): z.output<typeof balanceChangeSchema> {
  return {
    transaction_id: change.transactionId,
    account_id: change.accountId,
    kind: change.kind,
    description: change.description,
    amount: toJsonNumber(change.amount),
    currency: change.currency,
    created_at: change.createdAt,
  };
}
