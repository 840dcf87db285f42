import { describe, expect, test } from '@jest/globals';
import { formatDuration, metricsRange, parseDurationSeconds, parseTime } from '../../../domain/usage/metrics-range.ts';

const now = new Date('2026-11-21T12:00:00Z');
const at = (text: string) => new Date(`2026-11-${text}Z`);

describe('the range of the reply', () => {
  test('is the last five minutes in steps of five seconds by default', () => {
    expect(metricsRange({}, now)).toEqual({ start: at('21T11:55:00'), end: now, stepSeconds: 5 });
  });

  test('reaches from a start to now, and between an end and five minutes ago', () => {
    expect(metricsRange({ start: at('21T11:00:00') }, now)).toMatchObject({ start: at('21T11:00:00'), end: now });
    expect(metricsRange({ end: at('21T11:58:00') }, now)).toMatchObject({
      start: at('21T11:55:00'),
      end: at('21T11:58:00'),
    });
    expect(metricsRange({ end: at('21T10:00:00') }, now)).toMatchObject({
      start: at('21T10:00:00'),
      end: at('21T11:55:00'),
    });
  });

  test('has swapped bounds put right', () => {
    expect(metricsRange({ start: at('21T10:00:00'), end: at('21T09:00:00') }, now)).toMatchObject({
      start: at('21T09:00:00'),
      end: at('21T10:00:00'),
    });
  });

  test('begins no earlier than the retention of metrics', () => {
    expect(metricsRange({ start: at('01T00:00:00') }, now).start).toEqual(at('14T12:00:00'));
    const before = metricsRange({ start: at('01T00:00:00'), end: at('02T00:00:00') }, now);
    expect([before.start, before.end]).toEqual([at('14T12:00:00'), at('14T12:00:00')]);
  });

  test.each([
    [1, 60, 5],
    [7, 60, 7],
    [undefined, 600, 5],
    [undefined, 7 * 86_400, 60],
    [5, 14 * 3600, 5],
    [5, 15 * 3600, 10],
    [900, 7 * 86_400, 900],
    [90, 7 * 86_400, 90],
  ])(
    'a step of %s over %i seconds is %i: never finer than the samples, never too many items',
    (step, over, expected) => {
      const start = new Date(now.getTime() - over * 1000);
      const range = metricsRange({ start, stepSeconds: step }, now);
      expect(range.stepSeconds).toBe(expected);
      expect(over / range.stepSeconds).toBeLessThanOrEqual(10_080);
    },
  );

  test('in the future has no items, regardless of its length', () => {
    const range = metricsRange({ start: now, end: new Date(now.getTime() + 1e11) }, now);
    expect(range.stepSeconds).toBe(5);
  });
});

test.each([
  ['2026-11-21T12:00:00Z', now],
  ['2026-11-21T12:00:00.000Z', now],
  ['2026-11-21t12:00:00z', now],
  ['2026-11-21T14:00:00+02:00', now],
  ['2026-11-21T14:00:00 02:00', now],
  ['2026-11-21T10:30:00-0130', now],
  ['2026-11-21T12:00', now],
  ['2026-11-21 12:00:00', now],
  ['2026-11-21', new Date('2026-11-21T00:00:00Z')],
  ['1795262400', new Date(1_795_262_400_000)],
  ['1795262400.5', new Date(1_795_262_400_500)],
  ['1795262400000', new Date(1_795_262_400_000)],
  ['20261121T120000Z', now],
  ['20261121T12:00:00Z', now],
  ['20261121T1400+0200', now],
  ['2026-11-21T12', now],
  ['2026-11-21T12Z', now],
  ['2026-11-21T14+02', now],
  ['2026-11-21T14:00:00 0200', now],
  ['2026-11-21 14:00:00 +02:00', now],
  ['2026-11-21T12:00:00,000Z', now],
  ['2026-11-21T12:00:00.000000000Z', now],
  ['2026-W47-6T12:00:00Z', now],
  ['2026W476T120000Z', now],
  ['2026-325T12:00Z', now],
  ['2026-11-20T24:00:00Z', new Date('2026-11-21T00:00:00Z')],
  ['20261121', new Date('2026-11-21T00:00:00Z')],
  ['2026-11', new Date('2026-11-01T00:00:00Z')],
  ['2026', new Date('2026-01-01T00:00:00Z')],
  ['9'.repeat(65), null],
  ['yesterday', null],
  ['2026-13-01T00:00:00Z', null],
  ['', null],
  ['-5', null],
  ['9999-12-31T23:59:59Z', new Date('9999-12-31T23:59:59Z')],
  ['9999-12-31T23:59:59-14:00', null],
  ['+275760-09-13T00:00:00Z', null],
  ['0000-01-01', null],
  ['-000001-01-01T00:00:00Z', null],
  ['253402300800000', null],
])('the time %j', (text, expected) => {
  expect(parseTime(text)).toEqual(expected);
});

test.each([
  ['5s', 5],
  ['15m', 900],
  ['1h', 3600],
  ['1H', 3600],
  ['1d', 86_400],
  ['30', 30],
  ['1m30s', 90],
  ['1h15m30.5s', 4531],
  ['500ms', 1],
  ['1500000µs', 2],
  ['0.1h', 360],
  ['1.5m', 90],
  ['0s', null],
  ['0ms', null],
  ['1m 30s', null],
  ['1m30', null],
  ['s', null],
  ['', null],
  ['8d', null],
  ['1w', null],
  ['-5s', null],
])('the duration %j', (text, expected) => {
  expect(parseDurationSeconds(text)).toBe(expected);
});

test.each([
  [5, '5s'],
  [900, '15m'],
  [90, '90s'],
  [7200, '2h'],
  [86_400, '1d'],
])('%i seconds are written %s', (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
  expect(parseDurationSeconds(text)).toBe(seconds);
});
