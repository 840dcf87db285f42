import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';

/** A server in a "sandbox", which is an address of loopback. */
export interface UpstreamServer {
  address: string;
  port: number;
  /** Sockets it has accepted so far. */
  sockets: Set<net.Socket>;
  accepted: () => number;
  stop(): Promise<void>;
}

/** A node:http server; `port` 0 chooses one. */
export function startHttpUpstream(
  listener: http.RequestListener,
  address = '127.0.0.1',
  options: http.ServerOptions = {},
  port = 0,
): Promise<UpstreamServer & { server: http.Server }> {
  const server = http.createServer({ keepAliveTimeout: 60_000, ...options }, listener);
  return listening(server, address, port);
}

/** A server with a handler of raw connections. */
export function startRawUpstream(
  onSocket: (socket: net.Socket) => void,
  address = '127.0.0.1',
  port = 0,
): Promise<UpstreamServer> {
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    onSocket(socket);
  });
  return listening(server, address, port);
}

/** A server that answers each request's head with these bytes. */
export function startScriptedUpstream(answer: string | Buffer, address = '127.0.0.1'): Promise<UpstreamServer> {
  return startRawUpstream((socket) => {
    socket.on('data', (bytes) => {
      if (bytes.includes('\r\n\r\n')) socket.write(answer);
    });
  }, address);
}

/** Any server, made to listen and to be stoppable. */
export async function listening<S extends net.Server>(
  server: S,
  address: string,
  port: number,
): Promise<UpstreamServer & { server: S }> {
  const sockets = new Set<net.Socket>();
  let accepted = 0;
  server.on('connection', (socket) => {
    accepted++;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(port, address);
  await once(server, 'listening');
  return {
    server,
    address,
    port: (server.address() as net.AddressInfo).port,
    sockets,
    accepted: () => accepted,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
