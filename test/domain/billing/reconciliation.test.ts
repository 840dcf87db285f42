import { expect, test } from '@jest/globals';
import { type ComparedCharge, describeCharge, isSameCharge } from '../../../domain/billing/reconciliation.ts';

const charge: ComparedCharge = {
  ...{ paymentIntentId: 'pi_1', status: 'succeeded', amount: '12.50', currency: 'USD', amountRefunded: '0.00' },
};

test('charges are the same when status, amount, currency and refunds are', () => {
  expect(isSameCharge(charge, { ...charge, amount: '12.5', amountRefunded: '0' })).toBe(true);
  for (const other of [
    { status: 'processing' },
    { amount: '12.51' },
    { currency: 'EUR' },
    { amountRefunded: '0.01' },
  ]) {
    expect(isSameCharge(charge, { ...charge, ...other })).toBe(false);
  }
});

test('a charge is described with its refunds', () => {
  expect(describeCharge(charge)).toBe('succeeded, 12.50 USD');
  expect(describeCharge({ ...charge, amountRefunded: '2.00' })).toBe('succeeded, 12.50 USD, 2.00 refunded');
});
