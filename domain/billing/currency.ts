/** Currencies without a smaller unit, and currencies with three digits, as payment processors count them (ISO 4217). */
const withoutDigits = 'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF'.split(' ');
const withThreeDigits = 'BHD JOD KWD OMR TND'.split(' ');

/** The number of decimals of an amount in a currency. @param currency an ISO 4217 code in capital letters */
export function currencyDigits(currency: string): number {
  if (withoutDigits.includes(currency)) return 0;
  return withThreeDigits.includes(currency) ? 3 : 2;
}
