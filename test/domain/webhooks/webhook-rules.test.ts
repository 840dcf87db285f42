import { describe, expect, test } from '@jest/globals';
import { eventTypes, findAudience } from '../../../domain/event-types.ts';
import { type AttemptOutcome, formatBody, judge } from '../../../domain/webhooks/delivery.ts';
import { readRetryAfter, retrySpacingMs, withRetryAfter } from '../../../domain/webhooks/schedule.ts';
import { problemOfWebhookUrl } from '../../../domain/webhooks/url.ts';

test('attempts have the documented delays, each ± 20 %', () => {
  const minutes = (count: number) => count * 60_000;
  const hours = (count: number) => count * 3_600_000;
  const spacings = [
    5000,
    30_000,
    minutes(2),
    minutes(10),
    minutes(30),
    hours(1),
    hours(2),
    hours(4),
    hours(8),
    hours(12),
  ];
  for (const [index, spacing] of spacings.entries()) {
    expect(retrySpacingMs(index + 1, 0)).toBe(spacing * 0.8);
    expect(retrySpacingMs(index + 1, 0.5)).toBe(spacing);
    expect(retrySpacingMs(index + 1, 1)).toBe(spacing * 1.2);
  }
});

test('Retry-After is seconds or a date, only lengthens a wait, and counts up to a day', () => {
  const nowMs = Date.parse('2026-05-04T14:05:00Z');
  expect(readRetryAfter('120', nowMs)).toBe(120_000);
  expect(readRetryAfter('Mon, 04 May 2026 14:06:00 GMT', nowMs)).toBe(60_000);
  expect(readRetryAfter('Mon, 04 May 2026 14:00:00 GMT', nowMs)).toBe(0);
  for (const nonsense of [undefined, '', '-1', '1.5', 'soon', '20:26', '99999999999', 'Mon, nothing']) {
    expect([nonsense, readRetryAfter(nonsense, nowMs)]).toEqual([nonsense, null]);
  }
  expect(withRetryAfter(5000, 60_000)).toBe(60_000);
  expect(withRetryAfter(600_000, 60_000)).toBe(600_000);
  expect(withRetryAfter(5000, null)).toBe(5000);
  expect(withRetryAfter(5000, 999_999_999_000)).toBe(24 * 3_600_000);
});

describe('an attempt', () => {
  const outcome = (httpStatus: number | null, error: string | null): AttemptOutcome => ({
    ...{ startedAt: '2026-05-04T14:05:00.000Z', durationMs: 5, reply: '', retryAfterMs: null, httpStatus, error },
  });
  test.each([
    ['a success', outcome(204, null), 1, { status: 'delivered' }],
    ['a failure with retries left', outcome(500, 'no'), 3, { status: 'retrying', waitMs: 1000 }],
    ['no reply with retries left', outcome(null, 'no'), 3, { status: 'retrying', waitMs: 1000 }],
    ['the last failure', outcome(500, 'no'), 4, { status: 'failed' }],
    ['an endpoint that is gone', outcome(410, 'gone'), 1, { status: 'failed' }],
  ] as const)('is judged: %s', (_name, result, attempt, verdict) => {
    expect(judge(result, { attempt, maxRetries: 3, spacingMs: 1000 })).toEqual(verdict);
  });
});

test('types, families and all events can be subscribed to, by their audience', () => {
  for (const { type, audience } of eventTypes) expect(findAudience(type)).toBe(audience);
  for (const family of ['sandbox.*', 'template.*', 'exec.*', '*']) expect(findAudience(family)).toBe('user');
  for (const family of ['payment.*', 'subscription.*', 'budget.*']) expect(findAudience(family)).toBe('account');
  for (const unknown of [
    '',
    'sandbox',
    'sandbox.',
    'sandbox.exploded',
    '*.*',
    'sandbox.**',
    'webhook.test',
    'exec.started',
  ]) {
    expect([unknown, findAudience(unknown)]).toEqual([unknown, null]);
  }
});

test('the body of an event has its id, type, time and data', () => {
  const event = {
    eventId: 'evt-1' as const,
    eventType: 'sandbox.started',
    eventAt: '2026-05-04T14:05:00.000Z',
    data: { a: 1 },
  };
  expect(JSON.parse(formatBody(event))).toEqual({
    ...{ id: 'evt-1', type: 'sandbox.started', timestamp: '2026-05-04T14:05:00.000Z', data: { a: 1 } },
  });
});

test('a URL names a host that may be connected to, by HTTP', () => {
  for (const url of [
    'https://example.com',
    'http://example.com:8080/a?b=c',
    'https://[2606:4700::1111]/',
    'HTTP://8.8.8.8/',
  ]) {
    expect([url, problemOfWebhookUrl(url, [])]).toEqual([url, null]);
  }
  for (const url of [
    '//example.com',
    'https:/example.com',
    'file:///etc/passwd',
    'http://example.com:0/',
    'http://1.2.3.4:6667/',
  ]) {
    expect([url, problemOfWebhookUrl(url, [])]).toEqual([url, expect.any(String)]);
  }
  for (const url of [
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://017700000001/',
    'http://[::1]/',
  ]) {
    expect([url, problemOfWebhookUrl(url, [])]).toEqual([url, expect.any(String)]);
    expect([url, problemOfWebhookUrl(url, ['127.0.0.0/8', '::1/128'])]).toEqual([url, null]);
  }
});
