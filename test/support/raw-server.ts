import { once } from 'node:events';
import net from 'node:net';

/** A server on loopback that sends raw bytes instead of HTTP replies. */
export class RawServer {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  /** The number of connections that were accepted. */
  accepted = 0;

  private constructor(onRequest: (socket: net.Socket) => void) {
    this.#server = net.createServer((socket) => {
      this.accepted += 1;
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('data', () => onRequest(socket));
    });
  }

  /** @param onRequest called with each piece of data that arrives */
  static async start(onRequest: (socket: net.Socket) => void): Promise<RawServer> {
    const server = new RawServer(onRequest);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as net.AddressInfo).port}`;
  }

  /** The number of connections that are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Sends a beginning, and then the same piece again and again until the connection is closed. */
export function pour(socket: net.Socket, beginning: string, piece: string): void {
  socket.write(beginning);
  const pump = () => {
    if (socket.destroyed) return;
    if (socket.write(piece)) setImmediate(pump);
    else socket.once('drain', pump);
  };
  pump();
}

/** One chunk of a body with chunked transfer encoding. */
export const createChunk = (bytes: number) => `${bytes.toString(16)}\r\n${' '.repeat(bytes)}\r\n`;
