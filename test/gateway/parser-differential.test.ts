import { expect, test } from '@jest/globals';
import { RequestComparison } from './differential/compare-requests.ts';
import { compareResponse } from './differential/compare-responses.ts';
import { compareRandomRequests, compareRandomResponses } from './differential/random-runs.ts';

test('llhttp accepts every response that the parser accepts, with the same meaning, at every split', () => {
  const { findings, accepted } = compareRandomResponses(0x11ff, 700);
  expect(findings).toEqual([]);
  expect(accepted).toBeGreaterThan(100);
});

test('a sandbox gets exactly the one request that llhttp reads', async () => {
  const comparison = await RequestComparison.start();
  try {
    const { findings, passed } = await compareRandomRequests(comparison, 0x11ff, 400);
    expect(findings).toEqual([]);
    expect(passed).toBeGreaterThan(50);
  } finally {
    await comparison.stop();
  }
});

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

test.each([
  ['a length behind a vertical tab', 'HTTP/1.1 200 OK\r\nContent-Length:\v5\r\n\r\nhello'],
  ['a length before a no-break space', 'HTTP/1.1 200 OK\r\nContent-Length: 5\xa0\r\n\r\nhello'],
  ['a line feed within a field', 'HTTP/1.1 200 OK\r\nA:\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n'],
  ['a carriage return at the end of a field', 'HTTP/1.1 200 OK\r\nA: b\r\r\nContent-Length: 0\r\n\r\n'],
  ['the same length twice', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello'],
  ['a form feed before `chunked`', 'HTTP/1.1 200 OK\r\nTransfer-Encoding:\fchunked\r\n\r\n0\r\n\r\n'],
  ['a space and a tab behind `chunked`', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked \t\r\n\r\n0\r\n\r\n'],
  ['a space behind a chunk size', `${chunked}5 \r\nhello\r\n0\r\n\r\n`],
  ['a chunk extension of control characters', `${chunked}5;\x01\r\nhello\r\n0\r\n\r\n`],
  ['a quoted chunk extension without an end', `${chunked}5;a="\r\nhello\r\n0\r\n\r\n`],
  ['a no-break space in a trailer', `${chunked}0\r\nA: b\xa0\x85\v\r\n\r\n`],
  ['a length as a trailer', `${chunked}0\r\nContent-Length: 1\r\n\r\n`],
  ['an informational response that closes', 'HTTP/1.0 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
])('%s is refused, because llhttp refuses it or reads something else', (_what, text) => {
  const { findings, refusal } = compareResponse(text, 'GET', []);
  expect(findings).toEqual([]);
  expect(refusal).not.toBeNull();
});

/** Deliberate differences, in which the gateway's parser is stricter than llhttp. */
test.each([
  ['a status beyond 599', 'HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n', 'status line'],
  [
    'two fields that say `chunked`',
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n${chunked.slice(17)}0\r\n\r\n`,
    'transfer-encoding',
  ],
  ['an empty line before the status line', '\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', 'status line'],
])('%s is refused, although llhttp accepts it', (_what, text, reason) => {
  expect(compareResponse(text, 'GET', [])).toEqual({ findings: [], stricter: reason, refusal: reason });
});
