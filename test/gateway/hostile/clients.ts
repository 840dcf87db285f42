import http2 from 'node:http2';
import net from 'node:net';
import type { SeededRandom } from './random.ts';

/** The kinds of clients that send requests to a hostile sandbox. */
export const clientKinds = [
  'http/1.1',
  'http/1.1 HEAD',
  'http/1.0',
  'http/2',
  'http/2 HEAD',
  'http/2 POST',
  'gRPC',
  'WebSocket',
  'WebSocket over http/2',
] as const;
export type ClientKind = (typeof clientKinds)[number];

/** The end of a request: with this status, or without one. */
export type RoundEnd = `status ${number}` | 'no status' | 'hang';

/** The longest time that a client may wait after a sandbox has ended its reply. */
const hangMs = 30_000;

/** Clients of one gateway. HTTP/2 requests share connections, as in browsers. */
export class HostileClients {
  readonly #port: number;
  readonly #httpHost: string;
  readonly #grpcHost: string;
  #session: http2.ClientHttp2Session | null = null;
  readonly #sessions = new Set<http2.ClientHttp2Session>();
  #calls = 0;

  constructor(port: number, httpHost: string, grpcHost: string) {
    this.#port = port;
    this.#httpHost = httpHost;
    this.#grpcHost = grpcHost;
  }

  /** Sends a request and waits for its end of any kind. */
  play(kind: ClientKind, path: string, random: SeededRandom): Promise<RoundEnd> {
    switch (kind) {
      case 'http/1.1':
      case 'http/1.0':
        return this.#raw(`GET ${path} HTTP/${kind.slice(5)}\r\nHost: ${this.#httpHost}\r\nConnection: close\r\n\r\n`);
      case 'http/1.1 HEAD':
        return this.#raw(`HEAD ${path} HTTP/1.1\r\nHost: ${this.#httpHost}\r\nConnection: close\r\n\r\n`);
      case 'WebSocket':
        return this.#raw(
          `GET ${path} HTTP/1.1\r\nHost: ${this.#httpHost}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
            'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
        );
      case 'http/2':
        return this.#stream({ ':path': path }, null);
      case 'http/2 HEAD':
        return this.#stream({ ':path': path, ':method': 'HEAD' }, null);
      case 'http/2 POST':
        return this.#stream({ ':path': path, ':method': 'POST' }, Buffer.alloc(random.below(3000)));
      case 'gRPC':
        return this.#stream(
          { ':path': path, ':method': 'POST', 'content-type': 'application/grpc', ':authority': this.#grpcHost },
          Buffer.alloc(5),
        );
      case 'WebSocket over http/2':
        return this.#stream({ ':path': path, ':method': 'CONNECT', ':protocol': 'websocket' }, Buffer.alloc(5));
    }
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  #raw(request: string): Promise<RoundEnd> {
    return new Promise((resolve) => {
      const socket = net.connect(this.#port, '127.0.0.1');
      let start = '';
      const timer = setTimeout(() => finish('hang'), hangMs);
      const finish = (end: RoundEnd) => {
        clearTimeout(timer);
        socket.destroy();
        resolve(end);
      };
      socket.on('error', () => undefined);
      socket.on('data', (bytes: Buffer) => {
        if (start.length < 20) start += bytes.toString('latin1', 0, 20);
      });
      socket.on('close', () => {
        const status = /^HTTP\/1\.1 (\d{3})/.exec(start);
        finish(status ? `status ${Number(status[1])}` : 'no status');
      });
      // The sending side stays open: the gateway may treat a half-closed client as disconnected.
      socket.write(request, 'latin1');
    });
  }

  async #stream(headers: http2.OutgoingHttpHeaders, body: Buffer | null): Promise<RoundEnd> {
    const session = await this.#connected();
    return new Promise((resolve) => {
      const stream = session.request({ ':authority': this.#httpHost, ...headers }, { endStream: body === null });
      let status: number | null = null;
      const timer = setTimeout(() => {
        stream.destroy();
        resolve('hang');
      }, hangMs);
      stream.on('error', () => undefined);
      stream.on('response', (received) => {
        status = received[':status']!;
      });
      // A WebSocket: the client closes its side when the sandbox closes the other.
      stream.on('end', () => stream.end());
      stream.resume();
      stream.on('close', () => {
        clearTimeout(timer);
        resolve(status === null ? 'no status' : `status ${status}`);
      });
      if (body && headers[':method'] === 'CONNECT') stream.write(body);
      else if (body) stream.end(body);
    });
  }

  /** A connection with a limited number of requests, so that a broken one ends only a part of the run. */
  async #connected(): Promise<http2.ClientHttp2Session> {
    if (this.#session && !this.#session.closed && !this.#session.destroyed && ++this.#calls % 200 !== 0) {
      return this.#session;
    }
    this.#session?.close();
    const session = http2.connect(`http://${this.#httpHost}`, {
      createConnection: () => net.connect(this.#port, '127.0.0.1'),
      maxHeaderListPairs: 20_000,
    });
    session.on('error', () => undefined);
    this.#session = session;
    this.#sessions.add(session);
    session.once('close', () => this.#sessions.delete(session));
    // CONNECT with a protocol requires the gateway's setting, which arrives first.
    await new Promise<void>((resolve) => {
      session.once('remoteSettings', () => resolve());
      session.once('close', () => resolve());
    });
    return session;
  }
}
