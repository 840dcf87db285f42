import net from 'node:net';

/** A port of a loopback address that is free now, for a program that cannot choose a port itself. */
export async function freeLoopbackPort(address = '127.0.0.1'): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, address, resolve);
  });
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
