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
   * @param at the address to listen on, with a free port, or a server that listens already
   */
  static async open(target: string, at: string | net.Server): Promise<TcpRelay> {
    const { hostname, port } = new URL(`tcp://${target}`);
    const connections = new Set<net.Socket>();
    const server = typeof at === 'string' ? net.createServer() : at;
    server.on('connection', (from) => {
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
    if (typeof at === 'string') await once(server.listen(0, at), 'listening');
    server.unref();
    const { address, port: listening } = server.address() as net.AddressInfo;
    const relay = new TcpRelay(`${address}:${listening}`, server, connections);
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
