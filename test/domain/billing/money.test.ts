import {
  compare,
  computeCost,
  computeShare,
  difference,
  fromSmallestUnit,
  greater,
  isPositive,
  lesser,
  maxAmount,
  negated,
  readAmount,
  readDecimal,
  sumAmounts,
  taxOn,
  toSmallestUnit,
} from '../../../domain/billing/money.ts';
import { seededRandom } from './seeded-random.ts';

/** The same with integers: `numerator ÷ denominator`, rounded half to even. */
function roundedHalfEven(numerator: bigint, denominator: bigint): bigint {
  const sign = numerator < 0n ? -1n : 1n;
  const [quotient, twice] = [(sign * numerator) / denominator, 2n * ((sign * numerator) % denominator)];
  const isUp = twice > denominator || (twice === denominator && quotient % 2n === 1n);
  return sign * (isUp ? quotient + 1n : quotient);
}

function cents(amount: string): bigint {
  const sign = amount.startsWith('-') ? -1n : 1n;
  return sign * BigInt(amount.replace(/[-.]/g, ''));
}

const inCents = (value: bigint) => fromSmallestUnit(Number(value), 'USD');

test.each([
  ['0.5', 'JPY', '0'],
  ['1.5', 'JPY', '2'],
  ['2.5', 'JPY', '2'],
  ['-0.5', 'JPY', '0'],
  ['-2.5', 'JPY', '-2'],
  ['0.005', 'USD', '0.00'],
  ['0.015', 'USD', '0.02'],
  ['0.0150000001', 'USD', '0.02'],
  ['0.0049999999', 'USD', '0.00'],
  ['1.0005', 'KWD', '1.000'],
  ['1.0015', 'KWD', '1.002'],
])('%s %s of one unit costs %s: rounded once, half to even', (price, currency, expected) => {
  expect(computeCost('1', price, currency)).toBe(expected);
});

test('shares of a price are rounded from the exact quotient, as integers show', () => {
  const random = seededRandom(1);
  for (let i = 0; i < 3000; i++) {
    const price = BigInt(random.integer(1_000_000));
    const whole = 1 + random.integer(31 * 86_400_000);
    const part = random.integer(whole + 1);
    const wanted = roundedHalfEven(price * BigInt(part), BigInt(whole));
    expect([price, part, whole, cents(computeShare(inCents(price), part, whole, 'USD'))]).toEqual([
      price,
      part,
      whole,
      wanted,
    ]);
  }
  // Exact ties.
  for (const [price, expected] of [
    [1, 0],
    [3, 2],
    [5, 2],
    [7, 4],
  ] as const) {
    expect(cents(computeShare(inCents(BigInt(price)), 1, 2, 'USD'))).toBe(BigInt(expected));
  }
});

test('sums and differences of a million cents are exact where floats are not', () => {
  const amounts = Array.from({ length: 1000 }, () => '0.10');
  expect(amounts.reduce((sum, amount) => sum + Number(amount), 0)).not.toBe(100);
  expect(sumAmounts(amounts, 'USD')).toBe('100.00');
  expect(difference('0.30', '0.10', 'USD')).toBe('0.20');
  expect(sumAmounts([], 'USD')).toBe('0.00');
  expect(negated('0.00', 'USD')).toBe('0.00');
  expect(taxOn('10.50', '0.19', 'USD')).toBe('2.00');
  expect(taxOn('10.60', '0.075', 'USD')).toBe('0.80');
});

test('amounts and integers of the smallest unit convert without loss, with any number of digits', () => {
  expect(toSmallestUnit('49.00', 'USD')).toBe(4900);
  expect(toSmallestUnit('49', 'JPY')).toBe(49);
  expect(toSmallestUnit('49.001', 'KWD')).toBe(49_001);
  expect(fromSmallestUnit(4900, 'USD')).toBe('49.00');
  expect(fromSmallestUnit(49, 'JPY')).toBe('49');
  expect(() => toSmallestUnit('49.001', 'USD')).toThrow(RangeError);
  expect(() => fromSmallestUnit(0.5, 'USD')).toThrow(RangeError);
  const random = seededRandom(2);
  for (let i = 0; i < 500; i++) {
    const units = random.integer(2 ** 40);
    for (const currency of ['USD', 'JPY', 'KWD'])
      expect(toSmallestUnit(fromSmallestUnit(units, currency), currency)).toBe(units);
  }
});

test.each([
  ...[Number.NaN, Number.POSITIVE_INFINITY, -1, -0.01, 0.001, 1e-7, maxAmount + 1, 1e300, 19.999],
  ...['', ' ', 'ten', '1e3', '0x10', '1,000', '+1', '-1', '1.', '.5', '1.001', 'NaN', 'Infinity', '9'.repeat(40), '٣'],
])('%p is not an amount of US dollars', (given) => {
  expect(readAmount(given, 'USD')).toBeNull();
});

test.each([
  [0, '0.00'],
  [0.1, '0.10'],
  [0.3, '0.30'],
  [1.1, '1.10'],
  [maxAmount, '1000000000.00'],
  ['12.5', '12.50'],
  [' 7 ', '7.00'],
])('%p is %s US dollars', (given, expected) => {
  expect(readAmount(given, 'USD')).toBe(expected);
});

test('a currency without a smaller unit has no decimal places', () => {
  expect(readAmount(12.5, 'JPY')).toBeNull();
  expect(readAmount(12, 'JPY')).toBe('12');
  expect(readDecimal(0.07, 2)).toBe('0.07');
});

test('amounts are compared as numbers, not as text', () => {
  expect([compare('9.00', '10.00'), compare('1.0', '1.00'), compare('-1', '-2')]).toEqual([-1, 0, 1]);
  expect([lesser('9.00', '10.00'), greater('9.00', '10.00'), isPositive('-0.01')]).toEqual(['9.00', '10.00', false]);
});
