import { once } from 'node:events';
import net from 'node:net';

/** Makes a server on loopback of this machine reachable at another address of the machine. */
export class TcpRelay {
  /** `address:port` where it listens. */
  readonly address: string;
  readonly #server: net.Server;
  readonly #connections: Set<net.Socket>;
  #hangs = false;

  private constructor(address: string, server: net.Server, connections: Set<net.Socket>) {
    this.address = address;
    this.#server = server;
    this.#connections = connections;
  }

  /**
   * @param target `host:port`
   * @param at the address to listen on, with a free port
   */
  static async open(target: string, at: string): Promise<TcpRelay> {
    const { hostname, port } = new URL(`tcp://${target}`);
    const connections = new Set<net.Socket>();
    const server = net.createServer((from) => {
      const to = net.connect(Number(port), hostname);
      if (!relay.#hangs) from.pipe(to).pipe(from);
      for (const [socket, other] of [
        [from, to],
        [to, from],
      ] as const) {
        // Connections that a cut left hanging must not keep the test's process alive.
        socket.unref();
        connections.add(socket);
        socket.on('error', () => other.destroy());
        socket.on('close', () => connections.delete(socket));
      }
    });
    server.listen(0, at);
    await once(server, 'listening');
    server.unref();
    const relay = new TcpRelay(`${at}:${(server.address() as net.AddressInfo).port}`, server, connections);
    return relay;
  }

  /** Accepts connections and passes no more bytes on, as a suspended server does. */
  hang(): void {
    this.#hangs = true;
    for (const socket of this.#connections) socket.unpipe();
  }

  /** Passes on the bytes of new connections. Those that hung stay as they are. */
  goOn(): void {
    this.#hangs = false;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#connections) socket.destroy();
  }
}
