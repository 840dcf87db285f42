/** Currencies that have no smaller unit, and those with three digits, as payment processors count them (ISO 4217). */
const withoutDigits = 'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF'.split(' ');
const withThreeDigits = 'BHD JOD KWD OMR TND'.split(' ');

/** How many digits an amount of a currency has behind the point. @param currency an ISO 4217 code in capital letters */
export function currencyDigits(currency: string): number {
  if (withoutDigits.includes(currency)) return 0;
  return withThreeDigits.includes(currency) ? 3 : 2;
}
