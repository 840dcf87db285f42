import net from 'node:net';
import { formatHost } from '../started-gateway.ts';
import { endHeaders, endStream, frame, headerBlock, numberFrame, preface, requestFrame } from './http2-frames.ts';

/** Floods that any client can send, without a key, to a gateway with the sandboxes of `flooded-sandboxes.ts`. */
export interface Flood {
  name: string;
  /** The number of concurrent connections. */
  connections: number;
  /** The first bytes of a connection. */
  begin: Buffer;
  /**
   * The bytes that follow repeatedly, as fast as the gateway reads them; `round` counts from 0. Null: nothing follows.
   */
  repeat: ((round: number) => Buffer) | null;
  /** Whether the client reads what the gateway sends. */
  reads: boolean;
}

const empty = Buffer.alloc(0);
const concurrentStreams = 128;
/** About so much is written in one call. */
const blockBytes = 64 * 1024;
/** The largest payload that a peer accepts without a setting (RFC 9113 §6.5.2). */
const maxFrameBytes = 16_384;
const reading = formatHost('sbx-reading');
const silent = formatHost('sbx-silent');
const talking = formatHost('sbx-talking');

const begin = Buffer.concat([preface, frame('settings', 0, empty)]);
const ping = frame('ping', 0, Buffer.alloc(8));
const priority = frame('priority', 3, Buffer.from([0, 0, 0, 1, 16]));
const settings = frame('settings', 0, Buffer.from([0, 3, 0, 0, 0, 100]));
const repeated = (bytes: Buffer) => {
  const block = Buffer.concat(Array(Math.ceil(blockBytes / bytes.length)).fill(bytes));
  return () => block;
};
const clientStream = (index: number) => 2 * index + 1;
const eachStream = (make: (streamId: number) => Buffer, streams = concurrentStreams) =>
  Buffer.concat(Array.from({ length: streams }, (_, index) => make(clientStream(index))));
const uploads = (host: string) => Buffer.concat([begin, eachStream((id) => requestFrame(id, host))]);
const endlessHeaders = requestFrame(1, reading, 'GET', 0);
const upgrade = (host: string) =>
  Buffer.from(
    `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
const chunkedPost = (host: string) =>
  Buffer.from(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`);
/** A masked WebSocket frame of one byte. */
const webSocketFrame = Buffer.from([0x82, 0x81, 0, 0, 0, 0, 120]);
const createStreams = (round: number, count: number) =>
  Array.from({ length: count }, (_, i) => clientStream(round * count + i));

export const floodKinds: readonly Flood[] = [
  { name: 'PING', connections: 8, begin, repeat: repeated(ping), reads: true },
  { name: 'PING, answers unread', connections: 8, begin, repeat: repeated(ping), reads: false },
  { name: 'SETTINGS', connections: 8, begin, repeat: repeated(settings), reads: true },
  { name: 'SETTINGS, answers unread', connections: 8, begin, repeat: repeated(settings), reads: false },
  {
    name: 'rapid reset',
    connections: 8,
    begin,
    repeat: (round) =>
      Buffer.concat(
        createStreams(round, 100).flatMap((id) => [
          requestFrame(id, reading, 'GET', endHeaders | endStream),
          numberFrame('resetStream', id, 8),
        ]),
      ),
    reads: true,
  },
  {
    name: 'CONTINUATION',
    connections: 8,
    begin: Buffer.concat([begin, endlessHeaders]),
    repeat: repeated(frame('continuation', 1, headerBlock([['x', 'y'.repeat(1000)]]))),
    reads: true,
  },
  {
    name: 'empty CONTINUATION',
    connections: 8,
    begin: Buffer.concat([begin, endlessHeaders]),
    repeat: repeated(frame('continuation', 1, empty)),
    reads: true,
  },
  {
    name: 'PRIORITY',
    connections: 8,
    begin,
    repeat: repeated(priority),
    reads: true,
  },
  { name: 'WINDOW_UPDATE', connections: 8, begin, repeat: repeated(numberFrame('windowUpdate', 0, 1)), reads: true },
  {
    name: 'header lists too large',
    connections: 8,
    begin,
    repeat: (round) =>
      Buffer.concat(
        createStreams(round, 2).flatMap((id) => [
          requestFrame(id, reading, 'GET', endStream),
          ...Array(3).fill(frame('continuation', id, headerBlock([['x', 'y'.repeat(maxFrameBytes - 20)]]))),
          frame('continuation', id, empty, endHeaders),
        ]),
      ),
    reads: true,
  },
  {
    name: 'empty DATA',
    connections: 8,
    begin: uploads(reading),
    repeat: repeated(eachStream((id) => frame('data', id, empty))),
    reads: true,
  },
  {
    name: 'refused requests',
    connections: 8,
    begin,
    repeat: (round) =>
      Buffer.concat(
        createStreams(round, 100).map((id) => requestFrame(id, formatHost('sbx-none'), 'GET', endHeaders | endStream)),
      ),
    reads: true,
  },
  {
    name: 'refused requests, answers unread',
    connections: 8,
    begin,
    repeat: (round) =>
      Buffer.concat(
        createStreams(round, 100).map((id) => requestFrame(id, formatHost('sbx-none'), 'GET', endHeaders | endStream)),
      ),
    reads: false,
  },
  {
    name: 'uploads to a sandbox that does not read',
    connections: 7,
    begin: uploads(silent),
    repeat: repeated(eachStream((id) => frame('data', id, Buffer.alloc(8192)))),
    reads: true,
  },
  {
    name: 'uploads of single bytes to a sandbox that does not read',
    connections: 7,
    begin: uploads(silent),
    repeat: repeated(eachStream((id) => frame('data', id, Buffer.alloc(1)))),
    reads: true,
  },
  {
    name: 'single bytes amid PRIORITY frames to a sandbox that does not read',
    connections: 7,
    begin: uploads(silent),
    repeat: (round) =>
      Buffer.concat([
        frame('data', clientStream(round % concurrentStreams), Buffer.alloc(1)),
        ...Array(4500).fill(priority),
      ]),
    reads: true,
  },
  {
    name: 'uploads over HTTP/1.1 to a sandbox that does not read',
    connections: 900,
    begin: chunkedPost(silent),
    repeat: repeated(Buffer.from(`2000\r\n${'x'.repeat(0x2000)}\r\n`)),
    reads: true,
  },
  {
    name: 'chunks of single bytes to a sandbox that does not read',
    connections: 900,
    begin: chunkedPost(silent),
    repeat: repeated(Buffer.from('1\r\nx\r\n')),
    reads: true,
  },
  {
    name: 'chunks of single bytes',
    connections: 8,
    begin: chunkedPost(reading),
    repeat: repeated(Buffer.from('1\r\nx\r\n')),
    reads: true,
  },
  {
    name: 'WebSocket frames of single bytes to the sandbox',
    connections: 8,
    begin: upgrade(reading),
    repeat: repeated(webSocketFrame),
    reads: true,
  },
  {
    name: 'WebSocket frames of single bytes to a sandbox that does not read',
    connections: 900,
    begin: upgrade(silent),
    repeat: repeated(webSocketFrame),
    reads: true,
  },
  {
    name: 'WebSocket frames of single bytes from the sandbox',
    connections: 8,
    begin: upgrade(talking),
    repeat: null,
    reads: true,
  },
  {
    name: 'WebSocket frames of single bytes from the sandbox, unread',
    connections: 900,
    begin: upgrade(talking),
    repeat: null,
    reads: false,
  },
  {
    name: 'downloads, unread',
    connections: 900,
    begin: Buffer.from(`GET /big HTTP/1.1\r\nHost: ${talking}\r\n\r\n`),
    repeat: null,
    reads: false,
  },
  {
    name: 'chunks of single bytes from the sandbox, unread',
    connections: 900,
    begin: Buffer.from(`GET / HTTP/1.1\r\nHost: ${talking}\r\n\r\n`),
    repeat: null,
    reads: false,
  },
  {
    name: 'pipelined requests, answers unread',
    connections: 900,
    begin: empty,
    repeat: repeated(Buffer.from(`GET / HTTP/1.1\r\nHost: ${reading}\r\n\r\n`)),
    reads: false,
  },
  { name: 'half-open WebSocket upgrades', connections: 1500, begin: upgrade(silent), repeat: null, reads: true },
  {
    name: 'slow heads',
    connections: 1900,
    begin: Buffer.from(`GET / HTTP/1.1\r\nHost: ${reading}\r\nX: `),
    repeat: null,
    reads: true,
  },
];

/** The client's wait before it connects again after the gateway has closed its connection. */
const reconnectMs = 20;

/** Sends a flood until `signal` aborts. Connections that the gateway closes are opened again. */
export class FloodingClient {
  readonly #flood: Flood;
  readonly #port: number;
  readonly #sockets = new Set<net.Socket>();
  #isOver = false;
  /** Connections that the gateway has closed. */
  closed = 0;
  bytesSent = 0;

  constructor(flood: Flood, port: number) {
    this.#flood = flood;
    this.#port = port;
  }

  start(): void {
    for (let i = 0; i < this.#flood.connections; i++) this.#connect();
  }

  stop(): void {
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(): void {
    if (this.#isOver) return;
    const { begin: head, repeat, reads } = this.#flood;
    const socket = net.connect({ port: this.#port, host: '127.0.0.1', noDelay: true });
    this.#sockets.add(socket);
    if (reads) socket.resume();
    else socket.pause();
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.bytesSent += socket.bytesWritten;
      if (this.#isOver) return;
      this.closed++;
      setTimeout(() => this.#connect(), reconnectMs);
    });
    socket.write(head);
    if (repeat) this.#send(socket, repeat);
  }

  #send(socket: net.Socket, repeat: (round: number) => Buffer): void {
    let round = 0;
    const next = () => {
      if (socket.destroyed || this.#isOver) return;
      if (socket.write(repeat(round++))) setImmediate(next);
    };
    socket.on('drain', next);
    next();
  }
}
