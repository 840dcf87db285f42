import { hostileFields } from './fields.ts';
import type { SeededRandom } from './random.ts';

const statuses = [100, 101, 102, 103, 199, 200, 201, 204, 205, 206, 299, 301, 304, 400, 404, 500, 599, 600, 999];
const oddStatusLines = [
  'HTTP/1.1 099 a',
  'HTTP/1.1 20 a',
  'HTTP/1.1 2000 a',
  'HTTP/1.1 abc a',
  'HTTP/1.1  200 a',
  'HTTP/2.0 200 a',
  'http/1.1 200 a',
  'HTTP/1.1 200\0a',
  'HTTP/1.1 200 a\0b',
  'HTTP/1.1 200 \xff',
  '\0',
  'PRI * HTTP/2.0',
];

/** Bytes (latin1) that a hostile server sends for one request over HTTP/1.1. */
export function hostileReply(random: SeededRandom): string {
  let reply = '';
  const early = random.chance(0.02) ? 400 : random.chance(0.3) ? random.below(5) : 0;
  for (let i = early; i > 0; i--) reply += head(random, `HTTP/1.1 ${random.pick([100, 102, 103, 199])} a`, '');
  return reply + finalReply(random);
}

/** A valid reply, with the same kinds of framing. */
export function wellFormedReply(random: SeededRandom): string {
  const fields = `Content-Type: text/plain\r\nAge: ${random.below(100)}\r\nX-Content-Type-Options: nosniff\r\n`;
  const start = `HTTP/1.1 ${random.pick([200, 201, 404, 500])} Reason\r\n${fields}`;
  const body = 'x'.repeat(random.below(3000) + 1);
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n`;
  if (random.chance(0.5)) return `${start}Content-Length: ${body.length}\r\n\r\n${body}`;
  if (random.chance(0.5)) return `${start}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
  return `${start}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\nX-Sum: 1\r\n\r\n`;
}

function finalReply(random: SeededRandom): string {
  const status = random.chance(0.6) ? random.pick(statuses) : 100 + random.below(900);
  let line = random.chance(0.95)
    ? `HTTP/1.${random.chance(0.95) ? 1 : 0} ${status} Reason`
    : random.pick(oddStatusLines);
  if (random.chance(0.05)) line = line.slice(0, 12);
  if (random.chance(0.25)) line = 'HTTP/1.1 101 Switching Protocols';
  const isSwitch = line.includes(' 101');
  const upgrade = random.pick(['websocket', 'websocket', 'websocket', 'h2c', '']);
  const body = 'x'.repeat(random.chance(0.1) ? random.below(200_000) : random.below(300));
  const trailers = random.chance(0.6) ? lines(hostileFields(random)) : '';
  const { length } = body;
  const hex = length.toString(16);
  const framings: [string, string][] = [
    [`Content-Length: ${length}\r\n`, body],
    [`Content-Length: ${length + 1 + random.below(5)}\r\n`, body],
    [`Content-Length: ${Math.max(0, length - 3)}\r\n`, body],
    [`Content-Length: ${length}\r\nContent-Length: ${random.pick([length, 7])}\r\n`, body],
    [`Content-Length: ${random.pick(['-1', '0x10', '99999999999999999999', '1e3', ' ', '1,1'])}\r\n`, body],
    ['', body],
    ['Transfer-Encoding: chunked\r\n', `${hex}\r\n${body}\r\n0\r\n${trailers}\r\n`],
    ['Transfer-Encoding: chunked\r\n', `${hex};a=b\r\n${body}\r\n0\r\n${trailers}\r\n`],
    ['Transfer-Encoding: chunked\r\n', `1\r\na\r\n${hex}\r\n${body}\r\n0\r\n${trailers}\r\n`],
    ['Transfer-Encoding: chunked\r\n', `${hex}\r\n${body}\r\n`],
    ['Transfer-Encoding: chunked\r\n', `fffffffff\r\n${body}`],
    ['Transfer-Encoding: chunked\r\n', `zz\r\n${body}\r\n0\r\n\r\n`],
    ['Transfer-Encoding: chunked\r\n', `${hex}\n${body}\n0\n\n`],
    ['Transfer-Encoding: gzip, chunked\r\n', `${hex}\r\n${body}\r\n0\r\n\r\n`],
    [`Transfer-Encoding: chunked\r\nContent-Length: ${length}\r\n`, `${hex}\r\n${body}\r\n0\r\n\r\n`],
  ];
  // Most have trailers or bodies, which reach the client's side of the gateway.
  const [framing, bytes] = random.chance(0.4) ? framings[6]! : random.pick(framings);
  const connection = random.pick([
    '',
    '',
    'Connection: close\r\n',
    'Connection: Age, X-A\r\n',
    'Connection: upgrade\r\n',
  ]);
  const switching = isSwitch || random.chance(0.05) ? `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n` : '';
  const rest = isSwitch ? frames(random) : bytes;
  const after = random.chance(0.05) ? 'HTTP/1.1 200 Smuggled\r\nContent-Length: 1\r\n\r\na' : '';
  return head(random, line, framing + connection + switching) + rest + after;
}

function head(random: SeededRandom, line: string, fields: string): string {
  const text = `${line}\r\n${lines(hostileFields(random))}${fields}\r\n`;
  if (random.chance(0.97)) return text;
  return random.pick([text.replaceAll('\r\n', '\n'), text.replace('\r\n', '\r\n '), text.slice(0, -2), `${text}\r\n`]);
}

function lines(fields: [string, string][]): string {
  return fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
}

/** WebSocket frames, valid or not. */
function frames(random: SeededRandom): string {
  let bytes = '';
  for (let i = random.below(5); i > 0; i--) {
    const length = random.below(126);
    bytes += String.fromCharCode(random.below(256), length) + 'y'.repeat(length);
  }
  return bytes;
}
