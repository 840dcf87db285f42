const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const percent = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });

export const formatCount = (count: number) => whole.format(count);
export const formatNumber = (value: number) => short.format(value);
export const formatPercent = (share: number) => percent.format(share);

const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'];

/** Bytes in powers of 1024, with the locale's name of the unit. */
export function formatBytes(bytes: number): string {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  const options: Intl.NumberFormatOptions = {
    ...{ style: 'unit', unit: units[power]!, unitDisplay: power === 0 ? 'long' : 'short' },
    maximumFractionDigits: power < 2 ? 0 : 1,
  };
  return new Intl.NumberFormat(undefined, options).format(bytes / 1024 ** power);
}

export const formatMegabytes = (megabytes: number) => formatBytes(megabytes * 1024 ** 2);

/** An amount in a currency such as `usd`. Small amounts keep the digits that tell them from zero. */
export function formatMoney(amount: number, currency: string): string {
  const isSmall = amount !== 0 && Math.abs(amount) < 0.1;
  return new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.toUpperCase(),
    currencyDisplay: 'narrowSymbol',
    ...(isSmall && { maximumSignificantDigits: 2 }),
  }).format(amount);
}

/** The price of a unit, such as a second of a core, with all its digits. */
export function formatPrice(price: number, currency: string): string {
  return new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.toUpperCase(),
    currencyDisplay: 'narrowSymbol',
    maximumFractionDigits: 12,
  }).format(price);
}
