/** Usage of one type within an hour. */
export interface UsedHour {
  type: string;
  startMs: number;
  /** In the small unit of the type. */
  amount: bigint;
  price: string;
}

/** A month of an account, with the expected amounts of its invoice in cents. */
export interface UsedMonth {
  hours: UsedHour[];
  subtotal: bigint;
  tax: bigint;
}

const hourMs = 3_600_000;
/** Each type has an event once in this many hours. */
const everyHours = 23;

interface Kind {
  type: string;
  /** The number of small units in one unit that has a price. */
  perUnit: bigint;
  /** Small units per millisecond. */
  maxRate: number;
  price: string;
  /** The price in the second half of the month. */
  laterPrice: string;
  isCharged: boolean;
}

const kinds: readonly Kind[] = [
  ['cpu_seconds', 1000n, 16, '0.000014', '0.000016', true] as const,
  ['ram_gb_seconds', 1_024_000n, 32_768, '0.0000045', '0.0000045', true] as const,
  ['sandbox_storage_gb_seconds', 1000n, 100, '0.00000003', '0.00000004', true] as const,
  ['traffic_gb', 1_073_741_824n, 900, '0.05', '0.045', true] as const,
  ['template_storage_gb_seconds', 1_024_000n, 9000, '0.00000003', '0.00000003', true] as const,
  // Measured but not charged.
  ['cpu_seconds_used', 1000n, 16, '0.000014', '0.000014', false] as const,
].map(([type, perUnit, maxRate, price, laterPrice, isCharged]) => ({
  ...{ type, perUnit, maxRate, price, laterPrice, isCharged },
}));

/**
 * Usage from before a period until after it, so some hours overlap its start and its end. The sums use whole numbers
 * and none of the platform's code.
 * @param seed each account has its own
 * @param fee the price of the plan, in cents
 * @param taxPercent a whole number
 */
export function usedMonth(
  seed: number,
  { startMs, endMs, fee, taxPercent }: { startMs: number; endMs: number; fee: bigint; taxPercent: bigint },
): UsedMonth {
  const hours: UsedHour[] = [];
  const sums = new Map<string, { kind: Kind; price: string; amount: bigint }>();
  const roundToHour = (ms: number) => Math.floor(ms / hourMs) * hourMs;
  const halfMs = (startMs + endMs) / 2;
  const starts = new Set([roundToHour(startMs), roundToHour(endMs)]);
  for (let ms = roundToHour(startMs) - hourMs; ms < endMs; ms += everyHours * hourMs) starts.add(ms);
  let state = seed;
  for (const hour of starts) {
    for (const kind of kinds) {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      const rate = BigInt(1 + ((state >>> 16) % kind.maxRate));
      const price = hour < halfMs ? kind.price : kind.laterPrice;
      hours.push({ type: kind.type, startMs: hour, amount: rate * BigInt(hourMs), price });
      const withinMs = Math.min(hour + hourMs, endMs) - Math.max(hour, startMs);
      if (withinMs <= 0 || !kind.isCharged) continue;
      const key = `${kind.type} ${price}`;
      const before = sums.get(key)?.amount ?? 0n;
      sums.set(key, { kind, price, amount: before + rate * BigInt(withinMs) });
    }
  }
  let subtotal = fee;
  for (const { kind, price, amount } of sums.values()) {
    const [, decimals] = price.split('.') as [string, string];
    // Prices are below one: 0.05 is 5 hundredths.
    subtotal += roundedQuotient(amount * BigInt(decimals) * 100n, kind.perUnit * 10n ** BigInt(decimals.length));
  }
  return { hours, subtotal, tax: roundedQuotient(subtotal * taxPercent, 100n) };
}

/** Rounds half to even. */
function roundedQuotient(numerator: bigint, denominator: bigint): bigint {
  const [whole, rest] = [numerator / denominator, numerator % denominator];
  const isUp = rest * 2n > denominator || (rest * 2n === denominator && whole % 2n === 1n);
  return isUp ? whole + 1n : whole;
}
