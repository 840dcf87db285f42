import type http from 'node:http';
import { afterEach, expect, test } from '@jest/globals';
import { decodeText, detectImageType } from '../../gateway/pages/web/files/content-kinds.ts';
import { callAgent, fromBase64, streamFromAgent, toBase64 } from '../../gateway/pages/web/shared/agent.ts';
import { visibleText } from '../../gateway/pages/web/shared/page-error.ts';
import { startHttpUpstream } from './upstream-server.ts';

/** How the web pages treat an agent that root in the sandbox has replaced. test/e2e runs them in Chromium. */
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

async function agentThat(answer: (response: http.ServerResponse) => void): Promise<string> {
  const server = await startHttpUpstream((_request, response) => answer(response));
  stops.push(() => server.stop());
  return `http://${server.address}:${server.port}/`;
}

function frame(message: string, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(Buffer.byteLength(message), 1);
  return Buffer.concat([head, Buffer.from(message)]);
}

async function read(url: string, silenceMs = 60_000): Promise<unknown[]> {
  const messages: unknown[] = [];
  for await (const message of streamFromAgent(url, {}, silenceMs)) messages.push(message);
  return messages;
}
const catchCode = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error) => error.code,
  );

test('messages arrive completely regardless of splits', async () => {
  const bytes = Buffer.concat([frame('{"a":"żółć"}'), frame('{"b":2}'), frame('{}', 2)]);
  const url = await agentThat(async (response) => {
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  expect(await read(url)).toEqual([{ a: 'żółć' }, { b: 2 }]);
});

test.each<[string, (response: http.ServerResponse) => void, string]>([
  ['a message that is too long', (response) => response.write(Buffer.from([0, 0xff, 0xff, 0xff, 0xff])), 'bad_reply'],
  ['no JSON', (response) => response.end(frame('<html>')), 'bad_reply'],
  ['an end amid a message', (response) => response.end(frame('{"a":1}').subarray(0, 8)), 'disconnected'],
  ['an end without saying so', (response) => response.end(frame('{"a":1}')), 'disconnected'],
  ['an error at the end', (response) => response.end(frame('{"error":{"code":"not_found"}}', 2)), 'not_found'],
  ['a broken connection', (response) => response.destroy(), 'disconnected'],
  ['a status and no reason', (response) => response.writeHead(500).end('<html>'), 'http_500'],
  ['a redirect', (response) => response.writeHead(302, { location: '/' }).end(), 'disconnected'],
])('a stream with %s fails with a code', async (_, answer, code) => {
  expect(await catchCode(read(await agentThat(answer)))).toBe(code);
});

test('a stream without keepalives ends', async () => {
  const url = await agentThat((response) => response.write(frame('{"a":1}')));
  expect(await catchCode(read(url, 300))).toBe('disconnected');
});

test('of an endless reply only the allowed length is read', async () => {
  let isClosed = false;
  const url = await agentThat((response) => {
    const more = () => {
      if (!response.destroyed && response.write('x'.repeat(65_536))) setImmediate(more);
    };
    response.on('drain', more).on('close', () => {
      isClosed = true;
    });
    more();
  });
  expect(await catchCode(callAgent(url, {}, 1_000_000))).toBe('too_large');
  while (!isClosed) await new Promise((resolve) => setImmediate(resolve));
});

test('a reply that is not an object has no fields', async () => {
  for (const reply of ['null', '7', '"text"', '[]']) {
    expect(await callAgent(await agentThat((response) => response.end(reply)), {})).not.toHaveProperty('entries');
  }
  expect(await catchCode(callAgent(await agentThat((response) => response.end('{"a":')), {}))).toBe('bad_reply');
});

test('texts of the sandbox are shown with their control characters, on one line, and shortened', () => {
  expect(visibleText('a\u202eb\nc\u001b[2Jd\u200be\u0000')).toBe('a\\u{202e}b\\u{a}c\\u{1b}[2Jd\\u{200b}e\\u{0}');
  expect(visibleText('stray-\uf7ff\uf780')).toBe('stray-\\xff\\x80');
  expect(visibleText('żółć 日本 👩‍💻 <b>')).toBe('żółć 日本 👩‍💻 <b>');
  expect(visibleText('x'.repeat(10_000))).toHaveLength(301);
});

test.each<[string, Parameters<typeof decodeText>[0], ReturnType<typeof decodeText>]>([
  ['lines', Buffer.from('a\nb'), { text: 'a\nb', lineEnd: '\n' }],
  ['lines of Windows', Buffer.from('a\r\nb\r\n'), { text: 'a\r\nb\r\n', lineEnd: '\r\n' }],
  ['mixed lines', Buffer.from('a\r\nb\n'), { text: 'a\r\nb\n', lineEnd: null }],
  ['lines of long ago', Buffer.from('a\rb'), { text: 'a\rb', lineEnd: null }],
  ['a byte order mark', Buffer.from('\ufeffa'), { text: '\ufeffa', lineEnd: '\n' }],
  ['bytes', Buffer.from([0x61, 0xff]), null],
  ['a zero', Buffer.from('a\0b'), null],
])('%s are text if they can be written back unchanged', (_, bytes, text) => {
  expect(decodeText(bytes)).toEqual(text);
});

test('pictures are recognized by their bytes, and SVG is not a picture', () => {
  const types = [
    '\x89PNG\r\n\x1a\n',
    '\xff\xd8\xff\xe0',
    'GIF89a',
    'RIFF\0\0\0\0WEBPVP8 ',
    '<svg xmlns=',
    'BM',
    '',
  ].map((start) => detectImageType(Buffer.from(start, 'latin1')));
  expect(types).toEqual(['image/png', 'image/jpeg', 'image/gif', 'image/webp', null, null, null]);
});

test('keys and output are unchanged by base64', () => {
  expect(Buffer.from(toBase64('żółć\x03👩‍💻'), 'base64').toString()).toBe('żółć\x03👩‍💻');
  expect([...fromBase64('/wD+')]).toEqual([255, 0, 254]);
  expect(() => fromBase64('*')).toThrow('base64');
});
