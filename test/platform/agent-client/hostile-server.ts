import { once } from 'node:events';
import net from 'node:net';

/** A server on a raw socket, which runs `answer` for each connection after the request's head has arrived. */
export class HostileServer {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();

  private constructor(server: net.Server) {
    this.#server = server;
  }

  static async start(answer: (socket: net.Socket, every: HostileServer) => void): Promise<HostileServer> {
    const server = net.createServer();
    const hostile = new HostileServer(server);
    server.on('connection', (socket) => {
      hostile.#sockets.add(socket);
      socket.on('close', () => hostile.#sockets.delete(socket));
      // The tests include clients that close during a write.
      socket.on('error', () => {});
      socket.once('data', () => answer(socket, hostile));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return hostile;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Connections that the client has not closed. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Writes `text` repeatedly: as fast as the client reads it, or one piece every `everyMs`. */
  repeat(socket: net.Socket, text: string | Buffer, everyMs = 0): void {
    if (everyMs > 0) {
      const timer = setInterval(() => socket.write(text), everyMs);
      this.#timers.add(timer);
      socket.once('close', () => clearInterval(timer));
      return;
    }
    const fill = () => {
      while (!socket.destroyed && socket.write(text)) {}
    };
    socket.on('drain', fill);
    fill();
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
