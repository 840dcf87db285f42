import net from 'node:net';

const loopbackAddresses = ['127.0.0.1', '::1'];
const connectTimeoutMs = 3000;

/** The port of a request's target `localhost:<port>`. Null: it has another form. */
export function loopbackPort(target: string): number | null {
  const port = Number(/^localhost:([1-9]\d{0,4})$/.exec(target)?.[1]);
  return port <= 65_535 ? port : null;
}

/** Joins a client's connection with a server of this sandbox that listens on a loopback address. */
export async function joinLoopback(client: net.Socket, port: number, firstBytes: Buffer): Promise<void> {
  const server = await connectLoopback(port);
  if (!server) {
    refuse(client, '502 Bad Gateway');
    return;
  }
  if (client.destroyed) {
    server.destroy();
    return;
  }
  // The end of one direction ends only that direction. A broken connection also breaks the other one, so that the client
  // does not take an incomplete reply for a complete one.
  client.allowHalfOpen = true;
  for (const [one, other] of [
    [client, server],
    [server, client],
  ] as const) {
    one.on('error', () => other.resetAndDestroy());
    one.once('close', () => {
      if (one.readableEnded) return;
      other.resetAndDestroy();
    });
  }
  client.write('HTTP/1.1 200 OK\r\n\r\n');
  if (firstBytes.length > 0) server.write(firstBytes);
  client.pipe(server);
  server.pipe(client);
}

export function refuse(client: net.Socket, status: string): void {
  client.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`, () => client.destroy());
}

/** Null: no server accepts a connection. */
async function connectLoopback(port: number): Promise<net.Socket | null> {
  for (const host of loopbackAddresses) {
    const socket = net.connect({ host, port, noDelay: true, allowHalfOpen: true });
    const isConnected = await new Promise<boolean>((resolve) => {
      socket.setTimeout(connectTimeoutMs, () => resolve(false));
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    if (isConnected) return socket.setTimeout(0).removeAllListeners('timeout');
    socket.destroy();
  }
  return null;
}
