import { expect, test } from '@jest/globals';
import { MalformedResponse, type ResponseHead, ResponseParser } from '../../gateway/upstream/response-parser.ts';

/** The result of a response that is fed in pieces with these ends. */
function parse(bytes: Buffer, cuts: number[], method = 'GET') {
  const result = { heads: [] as ResponseHead[], body: '', last: 0, trailers: [] as string[], tunnel: '' };
  const parser = new ResponseParser();
  parser.begin(method, {
    onInformational: (head) => result.heads.push(head),
    onHead: (head) => result.heads.push(head),
    onBody: (piece, last, trailers) => {
      result.body += piece.toString('latin1');
      if (last) result.last++;
      result.trailers.push(...trailers);
    },
    onTunnelBytes: (piece) => {
      result.tunnel += piece.toString('latin1');
    },
  });
  // The buffer is reused, as reads do.
  const reused = Buffer.alloc(bytes.length);
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    const piece = reused.subarray(0, cut - from);
    bytes.copy(piece, 0, from, cut);
    parser.feed(piece);
    from = cut;
  }
  return { ...result, isComplete: parser.isComplete, keepAlive: parser.keepAlive };
}

const responses: [string, string, string, Partial<ReturnType<typeof parse>>][] = [
  [
    'a length',
    'GET',
    'HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nxx',
    { body: 'hello\r\n\r\nxx', last: 1, isComplete: true, keepAlive: true },
  ],
  [
    'chunks and trailers',
    'GET',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n \r\nA\r\n\r\n01234567\r\n0\r\nX: 1\r\nY:\r\n\r\n',
    { body: 'hello \r\n01234567', last: 1, trailers: ['X', '1', 'Y', ''], isComplete: true, keepAlive: true },
  ],
  [
    'an informational one before',
    'GET',
    'HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n',
    { body: '', last: 1, isComplete: true, keepAlive: true },
  ],
  [
    'the head alone',
    'HEAD',
    'HTTP/1.0 200\r\nContent-Length: 11\r\n\r\n',
    { body: '', last: 1, isComplete: true, keepAlive: false },
  ],
  [
    'a switch of protocols',
    'GET',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x05hello',
    { body: '', last: 0, tunnel: '\x81\x05hello', isComplete: false },
  ],
  [
    'a body until the end',
    'GET',
    'HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nall of it',
    { body: 'all of it', last: 0, isComplete: false, keepAlive: false },
  ],
];

test.each(responses)('a response with %s has the same meaning at every split', (_what, method, text, expected) => {
  const bytes = Buffer.from(text, 'latin1');
  const whole = parse(bytes, [], method);
  expect(whole).toMatchObject(expected);
  for (let first = 1; first < bytes.length; first++) {
    expect(parse(bytes, [first], method)).toEqual(whole);
    for (let second = first + 1; second < bytes.length; second += 7) {
      expect(parse(bytes, [first, second], method)).toEqual(whole);
    }
  }
  const everywhere = Array.from({ length: bytes.length - 1 }, (_, i) => i + 1);
  expect(parse(bytes, everywhere, method)).toEqual(whole);
});

test.each([
  ['a chunk size that is none', '-1\r\n'],
  ['a chunk size with a prefix', '0x5\r\nhello\r\n'],
  ['a chunk size beyond numbers', 'fffffffffffff\r\n'],
  ['a chunk line that ends in a bare line feed', '5\nhello\r\n'],
  ['a chunk longer than it says', '5\r\nhello!\r\n'],
  ['a trailer without a name', '0\r\n: x\r\n\r\n'],
  ['an endless chunk line', `1;${'x'.repeat(5000)}`],
])('%s is refused', (_what, chunks) => {
  const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
  expect(() => parse(bytes, [])).toThrow(MalformedResponse);
});

test('bytes after a response are not part of it, and the connection is not reused', () => {
  const bytes = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n');
  expect(() => parse(bytes, [])).toThrow(MalformedResponse);
});
