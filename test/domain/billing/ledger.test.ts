import { expect, test } from '@jest/globals';
import { check, constantFrom, integer, property, uniqueArray } from 'fast-check';
import { paymentRefundEntries, refundedTax } from '../../../domain/billing/ledger.ts';
import { compare, fromSmallestUnit, sumAmounts, taxOn } from '../../../domain/billing/money.ts';

test('a refund of half of a charge includes half of its tax', () => {
  const invoice = { taxAmount: '19.00', totalAmount: '119.00' };
  const tax = refundedTax({ before: '0.00', after: '59.50' }, invoice, 'USD');
  expect(tax).toBe('9.50');
  expect(paymentRefundEntries('59.50', tax, 'USD')).toEqual([
    { ledgerAccount: 'revenue', amount: '50.00' },
    { ledgerAccount: 'tax', amount: '9.50' },
    { ledgerAccount: 'cash', amount: '-59.50' },
  ]);
});

test('an invoice of zero has no tax to refund', () => {
  expect(refundedTax({ before: '0.00', after: '5.00' }, { taxAmount: '0.00', totalAmount: '0.00' }, 'USD')).toBe(
    '0.00',
  );
});

test('a charge that is refunded in any parts refunds exactly the tax of its invoice, and never more than a part has', () => {
  const subtotals = integer({ min: 1, max: 10_000_000 });
  const cuts = uniqueArray(integer({ min: 1, max: 9_999 }), { maxLength: 12 });
  const rates = constantFrom('0', '0.07', '0.19', '0.0725', '1');
  const holds = property(subtotals, rates, cuts, (units, rate, at) => {
    const subtotal = fromSmallestUnit(units, 'USD');
    const taxAmount = taxOn(subtotal, rate, 'USD');
    const totalAmount = sumAmounts([subtotal, taxAmount], 'USD');
    const total = Math.round(Number(totalAmount) * 100);
    const ends = [...new Set(at.map((cut) => Math.floor((total * cut) / 10_000)))].sort((a, b) => a - b);
    const sums = [0, ...ends.filter((end) => end > 0 && end < total), total].map((end) => fromSmallestUnit(end, 'USD'));
    const taxes = sums.slice(1).map((after, index) => {
      const tax = refundedTax({ before: sums[index]!, after }, { taxAmount, totalAmount }, 'USD');
      expect(compare(tax, '0')).toBeGreaterThanOrEqual(0);
      expect(
        sumAmounts(
          paymentRefundEntries(after, tax, 'USD').map(({ amount }) => amount),
          'USD',
        ),
      ).toBe('0.00');
      return tax;
    });
    expect(sumAmounts(taxes, 'USD')).toBe(taxAmount);
  });
  expect(check(holds, { numRuns: 500 })).toMatchObject({ failed: false });
});
