import http from 'node:http';
import net from 'node:net';
import { buffer } from 'node:stream/consumers';
import { until } from '../support/until.ts';

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  rawHeaders: string[];
  rawTrailers: string[];
  body: Buffer;
  text: string;
  /** The body as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: replies of all shapes are read
  json: any;
}

export interface RequestOptions {
  port: number;
  host: string;
  path?: string;
  method?: string;
  headers?: http.OutgoingHttpHeaders;
  body?: string | Buffer;
  agent?: http.Agent;
}

/** Sends a request over HTTP/1.1, by default on a new connection. */
export async function send({
  port,
  host,
  path = '/',
  method = 'GET',
  headers = {},
  body,
  agent,
}: RequestOptions): Promise<Reply> {
  const request = http.request({
    host: '127.0.0.1',
    port,
    path,
    method,
    headers: { host, ...headers },
    agent: agent ?? false,
  });
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.once('error', reject);
  });
  request.end(body);
  const response = await answered;
  const bytes = await buffer(response);
  const text = bytes.toString();
  return {
    status: response.statusCode!,
    headers: response.headers,
    rawHeaders: response.rawHeaders,
    rawTrailers: response.rawTrailers,
    body: bytes,
    text,
    get json() {
      return JSON.parse(text);
    },
  };
}

/** A connection on which the test writes raw bytes. */
export class RawConnection {
  readonly socket: net.Socket;
  received = '';
  isClosed = false;

  constructor(port: number, socket: net.Socket = net.connect({ port, host: '127.0.0.1' })) {
    this.socket = socket;
    socket.on('data', (bytes) => {
      this.received += bytes.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.isClosed = true;
    });
  }

  write(bytes: string | Buffer): void {
    this.socket.write(bytes as string, 'latin1');
  }

  /** Waits until the received text contains `text`, or matches it. */
  async expect(text: string | RegExp, timeoutMs = 45_000): Promise<string> {
    const isThere = () => (typeof text === 'string' ? this.received.includes(text) : text.test(this.received));
    await until(() => isThere() || this.isClosed, timeoutMs);
    if (!isThere()) throw new Error(`closed after: ${JSON.stringify(this.received)}`);
    return this.received;
  }

  async closed(timeoutMs = 45_000): Promise<void> {
    await until(() => this.isClosed, timeoutMs);
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** Writes `bytes` on a new connection and waits until it is answered and closed, or the answer matches `expected`. */
export async function sendRaw(port: number, bytes: string, expected: RegExp = /\r\n\r\n/): Promise<string> {
  const connection = new RawConnection(port);
  connection.write(bytes);
  try {
    return await connection.expect(expected);
  } finally {
    connection.destroy();
  }
}
