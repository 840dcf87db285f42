import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type UsagePrices, type UsageType, usageTypeNames, usageTypes } from '../../domain/usage/types.ts';

const price = z.string().regex(/^\d{1,9}(\.\d{1,12})?$/, 'a decimal in text such as "0.000014"');
const charged = usageTypeNames.filter((type) => usageTypes[type].charged);

const schema = z.strictObject({
  currency: z.string().regex(/^[A-Z]{3}$/),
  prices: z.strictObject(Object.fromEntries(charged.map((type) => [type, price])) as Record<UsageType, typeof price>),
});

/**
 * Reads the prices of usage. The database keeps the prices of the past (`usage_price_periods`), and each usage event
 * stores the price at its time.
 * @param file JSON in the form of `db/billing/usage-prices.json`, which is also the default
 */
function loadUsagePrices(file = path.join(import.meta.dirname, 'usage-prices.json')): UsagePrices {
  return schema.parse(JSON.parse(readFileSync(file, 'utf8')));
}

/** The prices of this process. They apply once a control worker has stored them. */
export const usagePrices = loadUsagePrices();
