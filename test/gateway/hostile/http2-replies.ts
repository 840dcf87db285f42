import { hostileFields } from './fields.ts';
import type { SeededRandom } from './random.ts';

export const HEADERS = 1;
export const SETTINGS = 4;
export const PREFACE_BYTES = 24;
const DATA = 0;
const PRIORITY = 2;
const RST_STREAM = 3;
const PUSH_PROMISE = 5;
const PING = 6;
const GOAWAY = 7;
const WINDOW_UPDATE = 8;
const CONTINUATION = 9;
const END_STREAM = 1;
const END_HEADERS = 4;
const MAX_FRAME_BYTES = 16_384;

/** One frame of RFC 9113. */
export function frame(type: number, flags: number, streamId: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Fields as HPACK literals without Huffman coding (RFC 7541 §6.2.2). */
function block(fields: [string, string][]): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of fields) {
    parts.push(Buffer.from([0]));
    for (const text of [name, value]) {
      const bytes = Buffer.from(text, 'latin1');
      parts.push(integer(bytes.length), bytes);
    }
  }
  return Buffer.concat(parts);
}

function integer(value: number): Buffer {
  if (value < 127) return Buffer.from([value]);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
  return Buffer.from(bytes);
}

export function headersFrame(streamId: number, fields: [string, string][], isLast: boolean): Buffer {
  const bytes = block(fields);
  const end = isLast ? END_STREAM : 0;
  if (bytes.length <= MAX_FRAME_BYTES) return frame(HEADERS, end | END_HEADERS, streamId, bytes);
  const frames = [frame(HEADERS, end, streamId, bytes.subarray(0, MAX_FRAME_BYTES))];
  for (let at = MAX_FRAME_BYTES; at < bytes.length; at += MAX_FRAME_BYTES) {
    const isEnd = at + MAX_FRAME_BYTES >= bytes.length;
    frames.push(frame(CONTINUATION, isEnd ? END_HEADERS : 0, streamId, bytes.subarray(at, at + MAX_FRAME_BYTES)));
  }
  return Buffer.concat(frames);
}

const grpcType: [string, string] = ['content-type', 'application/grpc'];
const message = (bytes: number) => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes, 1);
  return Buffer.concat([prefix, Buffer.alloc(bytes, 'm')]);
};

/** A gRPC reply that is as it should be. */
export function wellFormedCall(random: SeededRandom, streamId: number): Buffer {
  return Buffer.concat([
    headersFrame(streamId, [[':status', '200'], grpcType], false),
    frame(DATA, 0, streamId, message(random.below(3000))),
    headersFrame(streamId, [['grpc-status', '0']], true),
  ]);
}

/** What a hostile HTTP/2 server sends for one call. */
export function hostileCall(random: SeededRandom, streamId: number): Buffer {
  const status = random.chance(0.6)
    ? '200'
    : random.pick(['204', '205', '304', '100', '101', '199', '600', '999', '000', '20', 'abc', '']);
  const fields = lowerCase(random, hostileFields(random));
  const start: [string, string][] = [[':status', status], grpcType, ...fields];
  const trailers: [string, string][] = [['grpc-status', '0'], ...lowerCase(random, hostileFields(random))];
  const data = frame(DATA, 0, streamId, message(random.below(2000)));
  const word = () => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(random.below(2 ** 32));
    return bytes;
  };
  const whole = [headersFrame(streamId, start, false), data, headersFrame(streamId, trailers, true)];
  const early = headersFrame(streamId, [[':status', random.pick(['100', '102', '103'])], ...fields], false);
  const variants: Buffer[][] = [
    whole,
    whole,
    whole,
    whole,
    [headersFrame(streamId, start, true)],
    [...Array(random.chance(0.1) ? 300 : 2).fill(early), ...whole],
    [whole[0]!, data, headersFrame(streamId, [[':status', '200'], ...trailers], true)],
    [whole[0]!, data, headersFrame(streamId, trailers, false), data],
    [data, ...whole],
    [whole[0]!, whole[0]!, data, whole[2]!],
    [whole[0]!, data, frame(RST_STREAM, 0, streamId, word())],
    [frame(RST_STREAM, 0, streamId, word())],
    [whole[0]!, frame(GOAWAY, 0, 0, Buffer.concat([word(), word(), Buffer.from('debug')]))],
    [...Array(50).fill(frame(PING, 0, 0, Buffer.alloc(8))), ...whole],
    [...Array(50).fill(frame(SETTINGS, 0, 0)), ...whole],
    [frame(SETTINGS, 0, 0, Buffer.concat([Buffer.from([0, random.below(8)]), word()])), ...whole],
    [frame(WINDOW_UPDATE, 0, random.pick([0, streamId]), word()), ...whole],
    [frame(PRIORITY, 0, streamId, Buffer.alloc(5)), ...whole],
    [frame(PUSH_PROMISE, END_HEADERS, streamId, Buffer.concat([Buffer.from([0, 0, 0, 2]), block(start)])), ...whole],
    [frame(CONTINUATION, END_HEADERS, streamId, block(start)), ...whole],
    [frame(200, 255, streamId, Buffer.alloc(30)), ...whole],
    [frame(HEADERS, END_HEADERS, streamId, Buffer.from([0x80, 0xff, 0xff, 0xff]))],
    [headersFrame(streamId + 2, start, false), ...whole],
    [Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')],
    [whole[0]!, whole[2]!.subarray(0, 12)],
    [],
  ];
  return Buffer.concat(random.pick(variants));
}

/** Mostly as HTTP/2 wants names; a name in upper case ends the call at once. */
function lowerCase(random: SeededRandom, fields: [string, string][]): [string, string][] {
  if (random.chance(0.1)) return fields;
  return fields.map(([name, value]) => [name.toLowerCase(), value]);
}
