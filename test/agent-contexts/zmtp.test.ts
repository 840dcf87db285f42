import { once } from 'node:events';
import net from 'node:net';
import { ZmtpSocket } from '../../agent/contexts/jupyter/zmtp.ts';

/** A peer that sends exactly these bytes, in pieces of this size, and keeps the received ones. */
async function peer(
  says: Buffer[],
  pieceBytes: number,
): Promise<{ port: number; heard: () => Buffer; close: () => void }> {
  const chunks: Buffer[] = [];
  const server = net.createServer((socket) => {
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {}); // The client may hang up on what it does not like.
    for (const bytes of says) {
      for (let at = 0; at < bytes.length; at += pieceBytes) socket.write(bytes.subarray(at, at + pieceBytes));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  return { port, heard: () => Buffer.concat(chunks), close: () => server.close() };
}

const greeting = Buffer.concat([
  Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]),
  Buffer.from('NULL'.padEnd(20, '\0')),
  Buffer.alloc(32),
]);

function frame(flags: number, payload: Buffer): Buffer {
  if (payload.length < 256) return Buffer.concat([Buffer.of(flags, payload.length), payload]);
  const head = Buffer.alloc(9);
  head[0] = flags | 2;
  head.writeBigUInt64BE(BigInt(payload.length), 1);
  return Buffer.concat([head, payload]);
}

const ready = frame(4, Buffer.from('\x05READY\x0bSocket-Type\0\0\0\x04XPUB'));

/** Receives until the connection ends or `count` messages have arrived. */
function receive(port: number, count: number) {
  const messages: (string | null)[][] = [];
  return new Promise<{ messages: (string | null)[][]; error: Error | undefined }>((resolve) => {
    const socket = new ZmtpSocket(
      'SUB',
      { host: '127.0.0.1', port },
      {
        onReady: () => {},
        onMessage: (frames) => {
          messages.push(frames.map((part) => part?.toString() ?? null));
          if (messages.length === count) socket.close();
        },
        onClose: (error) => resolve({ messages, error }),
      },
    );
  });
}

test.each([1, 3, 64, 100_000])('messages arrive completely in pieces of %i bytes', async (pieceBytes) => {
  const long = Buffer.from('x'.repeat(70_000));
  const says = [greeting, ready, frame(1, Buffer.from('a')), frame(1, Buffer.alloc(0)), frame(0, long)];
  const { port, heard, close } = await peer([...says, frame(0, Buffer.from('last'))], pieceBytes);
  const { messages } = await receive(port, 2);
  close();
  expect(messages).toEqual([['a', '', long.toString()], ['last']]);
  expect(heard().subarray(0, 17).toString('latin1')).toBe('\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL\0');
  // A subscription to everything, in the format of ZMTP 3.0.
  expect(heard().subarray(-3)).toEqual(Buffer.from([0, 1, 1]));
});

test('a frame over the limit is skipped, and the following ones arrive', async () => {
  const mebibyte = Buffer.alloc(1024 * 1024);
  const head = Buffer.alloc(9);
  head[0] = 1 | 2;
  head.writeBigUInt64BE(BigInt(257 * mebibyte.length), 1);
  const { port, close } = await peer(
    [
      greeting,
      ready,
      head,
      ...Array<Buffer>(257).fill(mebibyte),
      frame(0, Buffer.from('b')),
      frame(0, Buffer.from('c')),
    ],
    mebibyte.length,
  );
  const { messages } = await receive(port, 2);
  close();
  expect(messages).toEqual([[null, 'b'], ['c']]);
});

test('a peer of another protocol is disconnected', async () => {
  const { port, close } = await peer([Buffer.from('HTTP/1.1 400 Bad Request\r\n'.padEnd(80, '\n'))], 80);
  expect((await receive(port, 1)).error?.message).toContain('ZMTP');
  close();
});

test('a peer’s refusal is reported with its reason', async () => {
  const { port, close } = await peer([greeting, frame(4, Buffer.from('\x05ERROR\x04nope'))], 100);
  expect((await receive(port, 1)).error?.message).toContain('nope');
  close();
});
