/** HTTP/2 frames as bytes (RFC 9113), for clients that break its rules. */
const frameHeadBytes = 9;

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
export const endStream = 0x1;
export const endHeaders = 0x4;

const types = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  ping: 6,
  windowUpdate: 8,
  continuation: 9,
} as const;

export function frame(type: keyof typeof types, streamId: number, payload: Buffer, flags = 0): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = types[type];
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** A frame whose payload is one number of 32 bits: an error code, or an increment of a window. */
export function numberFrame(type: 'resetStream' | 'windowUpdate', streamId: number, value: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(value);
  return frame(type, streamId, payload);
}

/** Header fields as HPACK literals that are not added to a table (RFC 7541 §6.2.2). */
export function headerBlock(fields: [name: string, value: string][]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]));
}

/** A string without Huffman coding; its length is an integer with a prefix of 7 bits (RFC 7541 §5.1). */
function literal(text: string): Buffer {
  const length = [Math.min(text.length, 127)];
  for (let rest = text.length - 127; rest >= 0; rest >>= 7) {
    length.push(rest >= 128 ? (rest & 127) | 128 : rest);
    if (rest < 128) break;
  }
  return Buffer.concat([Buffer.from(length), Buffer.from(text, 'latin1')]);
}

/** The HEADERS frame of a request. A body must follow unless `flags` end the stream. */
export function requestFrame(streamId: number, host: string, method = 'POST', flags = endHeaders): Buffer {
  const block = headerBlock([
    [':method', method],
    [':scheme', 'http'],
    [':authority', host],
    [':path', '/'],
  ]);
  return frame('headers', streamId, block, flags);
}
