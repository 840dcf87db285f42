import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { HttpForwarding } from './http-forwarding.ts';
import type { Http1Connection } from './http1-connection.ts';
import { requestHead } from './request-head.ts';
import { MalformedResponse, type ResponseHead } from './response-parser.ts';

/** How long a client may take to read the last bytes of a sandbox that has closed. */
const lastBytesTimeoutMs = 5000;

/**
 * Forwards a WebSocket. After the sandbox's 101, bytes pass unchanged in both directions. Any other reply is forwarded
 * as an ordinary response.
 */
export class WebSocketForwarding extends HttpForwarding {
  #tunnel: Duplex | null = null;
  readonly #left = this.exchange.faults.wrap(() => this.clientCaughtUp());

  override async start(): Promise<void> {
    await this.connect('fresh');
  }

  override onHead(head: ResponseHead): void {
    if (head.status !== 101) {
      super.onHead(head);
      return;
    }
    if (head.upgrade?.toLowerCase() !== 'websocket') throw new MalformedResponse('switches to another protocol');
    const tunnel = this.exchange.accept(this.headForClient(head));
    this.#tunnel = tunnel;
    this.watchWaiting();
    const { faults } = this.exchange;
    const pass = (bytes: Buffer) => {
      if (this.connection?.write(bytes) === false) tunnel.pause();
    };
    tunnel.on('error', () => undefined);
    tunnel.on('data', faults.wrap(pass));
    tunnel.once(
      'end',
      faults.wrap(() => this.connection?.endTunnel()),
    );
    tunnel.resume();
  }

  override onTunnelBytes(bytes: Buffer): void {
    const tunnel = this.#tunnel!;
    tunnel.write(bytes, this.#left);
    if (tunnel.writableLength > 0) this.waitForClient();
  }

  override onWritable(): void {
    this.#tunnel?.resume();
  }

  protected override broken(error: Error): void {
    if (!this.#tunnel) {
      super.broken(error);
      return;
    }
    this.connection = null;
    const tunnel = this.#tunnel;
    tunnel.end(() => tunnel.destroy());
    // A client that does not read would keep the tunnel open.
    setTimeout(() => tunnel.destroy(), lastBytesTimeoutMs).unref();
  }

  protected override send(connection: Http1Connection): void {
    const { exchange } = this;
    const handshake = ['Connection', 'Upgrade', 'Upgrade', 'websocket'];
    const hasKey = this.context.request.fields.some(
      (name, i) => i % 2 === 0 && name.toLowerCase() === 'sec-websocket-key',
    );
    if (!hasKey) handshake.push('Sec-WebSocket-Key', randomBytes(16).toString('base64'));
    connection.send(requestHead(exchange, this.context.request, handshake), 'GET', this);
  }
}
