import { hostileFields } from './fields.ts';
import type { SeededRandom } from './random.ts';

export const headers = 1;
export const settings = 4;
export const prefaceBytes = 24;
const dataType = 0;
const priority = 2;
const rstStream = 3;
const pushPromise = 5;
const ping = 6;
const goaway = 7;
const windowUpdate = 8;
const continuation = 9;
const endStream = 1;
const endHeaders = 4;
const maxFrameBytes = 16_384;

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
  const end = isLast ? endStream : 0;
  if (bytes.length <= maxFrameBytes) return frame(headers, end | endHeaders, streamId, bytes);
  const frames = [frame(headers, end, streamId, bytes.subarray(0, maxFrameBytes))];
  for (let at = maxFrameBytes; at < bytes.length; at += maxFrameBytes) {
    const isEnd = at + maxFrameBytes >= bytes.length;
    frames.push(frame(continuation, isEnd ? endHeaders : 0, streamId, bytes.subarray(at, at + maxFrameBytes)));
  }
  return Buffer.concat(frames);
}

const grpcType: [string, string] = ['content-type', 'application/grpc'];
const message = (bytes: number) => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes, 1);
  return Buffer.concat([prefix, Buffer.alloc(bytes, 'm')]);
};

/** A valid gRPC reply. */
export function wellFormedCall(random: SeededRandom, streamId: number): Buffer {
  return Buffer.concat([
    headersFrame(streamId, [[':status', '200'], grpcType], false),
    frame(dataType, 0, streamId, message(random.below(3000))),
    headersFrame(streamId, [['grpc-status', '0']], true),
  ]);
}

/** The frames that a hostile HTTP/2 server sends for one call. */
export function hostileCall(random: SeededRandom, streamId: number): Buffer {
  const status = random.chance(0.6)
    ? '200'
    : random.pick(['204', '205', '304', '100', '101', '199', '600', '999', '000', '20', 'abc', '']);
  const fields = lowerCase(random, hostileFields(random));
  const start: [string, string][] = [[':status', status], grpcType, ...fields];
  const trailers: [string, string][] = [['grpc-status', '0'], ...lowerCase(random, hostileFields(random))];
  const data = frame(dataType, 0, streamId, message(random.below(2000)));
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
    [whole[0]!, data, frame(rstStream, 0, streamId, word())],
    [frame(rstStream, 0, streamId, word())],
    [whole[0]!, frame(goaway, 0, 0, Buffer.concat([word(), word(), Buffer.from('debug')]))],
    [...Array(50).fill(frame(ping, 0, 0, Buffer.alloc(8))), ...whole],
    [...Array(50).fill(frame(settings, 0, 0)), ...whole],
    [frame(settings, 0, 0, Buffer.concat([Buffer.from([0, random.below(8)]), word()])), ...whole],
    [frame(windowUpdate, 0, random.pick([0, streamId]), word()), ...whole],
    [frame(priority, 0, streamId, Buffer.alloc(5)), ...whole],
    [frame(pushPromise, endHeaders, streamId, Buffer.concat([Buffer.from([0, 0, 0, 2]), block(start)])), ...whole],
    [frame(continuation, endHeaders, streamId, block(start)), ...whole],
    [frame(200, 255, streamId, Buffer.alloc(30)), ...whole],
    [frame(headers, endHeaders, streamId, Buffer.from([0x80, 0xff, 0xff, 0xff]))],
    [headersFrame(streamId + 2, start, false), ...whole],
    [Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')],
    [whole[0]!, whole[2]!.subarray(0, 12)],
    [],
  ];
  return Buffer.concat(random.pick(variants));
}

/** Mostly in lower case, as HTTP/2 requires: a name in upper case ends the call at once. */
function lowerCase(random: SeededRandom, fields: [string, string][]): [string, string][] {
  if (random.chance(0.1)) return fields;
  return fields.map(([name, value]) => [name.toLowerCase(), value]);
}
