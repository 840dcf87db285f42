import type { SeededRandom } from '../hostile/random.ts';

export const fieldNames = ['A', 'X-Long-Name', 'Set-Cookie', 'ETag', 'Date', 'a.b', '!#$'];
export const fieldValues = ['', 'b', 'b c', '"q"', 'x\ty', '\xe9t\xe9', 'a,b', ';', 'a:b', `${'v'.repeat(70)}`];
const spaces = ['', '', '', ' ', ' ', ' ', '\t', '  ', ' \t '];
const reasons = [' OK', ' ', '', ' Not Found', ' \xe9', ' a\tb'];
const statuses = [
  '200',
  '200',
  '200',
  '200',
  '204',
  '206',
  '301',
  '304',
  '404',
  '500',
  '101',
  '999',
  '099',
  '20',
  '2000',
];
const bodies = ['', 'x', 'hello', 'a\r\nb', '0\r\n\r\n', 'HTTP/1.1 200 OK\r\n\r\n', 'z'.repeat(40)];
/** Bytes that HTTP parsers have read in different ways. */
export const awkwardBytes = [
  ...[
    '\r',
    '\n',
    '\r\n',
    '\n\r',
    '\r\r\n',
    '\0',
    '\v',
    '\f',
    '\t',
    ' ',
    '\x7f',
    '\x80',
    '\x85',
    '\xa0',
    '\xff',
    '\x1c',
  ],
  ...[':', ';', ',', '=', '"', '\\', '+', '-', '0', '00', '0x', '1', 'e', 'g', '5;a', '5 ', ';a=b', ';a="b c"', '; a'],
  ...['\r\n ', '\r\n\t', ': ', ' :', 'chunked', 'identity', 'close', 'keep-alive', 'Transfer-Encoding: chunked\r\n'],
  ...[
    'Content-Length: 1\r\n',
    'Content-Length: 5\r\n',
    'Connection: close\r\n',
    'Connection: A\r\n',
    '\r\n\r\n',
    '0\r\n\r\n',
  ],
];

/** The bytes of a response, mostly with few errors. Each character is a byte. */
export function responseText(random: SeededRandom): string {
  let text = '';
  while (random.chance(0.1)) text += head(random, random.pick(['100', '103', '102']), '');
  const body = random.pick(bodies);
  const status = random.pick(statuses);
  const form = random.below(8);
  if (form === 0) text += head(random, status, '') + body;
  else if (form < 4) {
    const length = random.chance(0.9) ? body.length : body.length + random.below(5) - 2;
    text += head(random, status, writeField(random, casing(random, 'Content-Length'), String(length))) + body;
  } else
    text +=
      head(random, status, writeField(random, casing(random, 'Transfer-Encoding'), 'chunked')) +
      writeChunks(random, body);
  if (random.chance(0.05)) text += head(random, '200', writeField(random, 'Content-Length', '0'));
  return random.chance(0.75) ? mutate(random, text) : text;
}

function head(random: SeededRandom, status: string, framing: string): string {
  const fields = Array.from({ length: random.below(4) }, () =>
    writeField(random, random.pick(fieldNames), random.pick(fieldValues)),
  );
  if (random.chance(0.2))
    fields.push(writeField(random, 'Connection', random.pick(['close', 'keep-alive', 'A', 'a, X-Long-Name'])));
  if (random.chance(0.1)) fields.push(writeField(random, 'Keep-Alive', 'timeout=5'));
  if (random.chance(0.05))
    fields.push(writeField(random, 'Upgrade', 'websocket'), writeField(random, 'Connection', 'Upgrade'));
  if (random.chance(0.05)) fields.push(framing);
  fields.splice(random.below(fields.length + 1), 0, framing);
  const version = random.chance(0.95)
    ? random.pick(['1.1', '1.1', '1.0'])
    : random.pick(['0.9', '2.0', '1.2', '1', '1.10']);
  return `HTTP/${version} ${status}${random.pick(reasons)}\r\n${fields.join('')}\r\n`;
}

export function writeField(random: SeededRandom, name: string, value: string): string {
  return `${name}:${random.pick(spaces)}${value}${random.chance(0.3) ? random.pick(spaces) : ''}\r\n`;
}

function casing(random: SeededRandom, name: string): string {
  return random.pick([name, name, name.toLowerCase(), name.toUpperCase()]);
}

export function writeChunks(random: SeededRandom, body: string): string {
  let text = '';
  for (let from = 0; from < body.length; ) {
    const piece = body.slice(from, from + 1 + random.below(10));
    from += piece.length;
    const size = random.pick(['', '', '', '0', '000']) + piece.length.toString(16);
    text += `${random.chance(0.2) ? size.toUpperCase() : size}${extension(random)}\r\n${piece}\r\n`;
  }
  const trailers = Array.from({ length: random.below(3) === 0 ? 1 + random.below(2) : 0 }, () =>
    writeField(random, random.pick(fieldNames), random.pick(fieldValues)),
  );
  return `${text}0${extension(random)}\r\n${trailers.join('')}\r\n`;
}

function extension(random: SeededRandom): string {
  if (random.chance(0.8)) return '';
  return random.pick([
    ';a',
    ';a=b',
    ';a="b c"',
    ';a=b;c',
    ';a;b="\\""',
    ' ',
    '\t',
    ' ;a',
    '; a',
    ';',
    ';a=',
    ';a="',
    ';=b',
    ';\xe9',
    ';a b',
  ]);
}

/** Inserts, removes, replaces or doubles a few bytes. */
export function mutate(random: SeededRandom, text: string): string {
  let changed = text;
  for (let times = 1 + random.below(3); times > 0; times -= 1) {
    const at = placeIn(random, changed);
    const kind = random.below(6);
    if (kind < 3) changed = changed.slice(0, at) + random.pick(awkwardBytes) + changed.slice(at);
    else if (kind === 3) changed = changed.slice(0, at) + changed.slice(at + 1 + random.below(2));
    else if (kind === 4) changed = changed.slice(0, at) + random.pick(awkwardBytes) + changed.slice(at + 1);
    else {
      const from = changed.lastIndexOf('\n', at) + 1;
      const to = changed.indexOf('\n', at) + 1;
      changed = changed.slice(0, to) + changed.slice(from, to) + changed.slice(to);
    }
  }
  return changed;
}

/** Mostly next to the characters that end a part of the message. */
function placeIn(random: SeededRandom, text: string): number {
  if (random.chance(0.3)) return random.below(text.length + 1);
  const marks = [...text.matchAll(/[\r\n:;, ]/g)].map((match) => match.index);
  return marks.length === 0 ? 0 : random.pick(marks) + random.below(2);
}
