import dgram from 'node:dgram';
import { once } from 'node:events';
import type { SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import { until } from '../../support/until.ts';
import type { DriverHost } from './driver-host.ts';

export interface Sandbox {
  spec: SandboxSpec;
  place: SandboxPlace;
}

/** A datagram that this machine sends. */
export interface Datagram {
  /** The receiver's address. */
  address: string;
  /** The sender's address, one of this machine. */
  from: string;
  text?: string;
}

/**
 * A script that answers each datagram with the host name and the sender's address, and writes the datagram to a file.
 */
const listener = `
const [fs, dgram, os] = [require('fs'), require('dgram'), require('os')];
for (const port of [5000, 5001]) {
  const socket = dgram.createSocket('udp4');
  socket.on('message', (text, peer) => {
    fs.appendFileSync('/root/heard', port + ' ' + text + String.fromCharCode(10));
    socket.send(os.hostname() + ' ' + peer.address, peer.port, peer.address);
  });
  socket.bind(port);
}`;

/** Makes a sandbox that answers on the ports 5000 and 5001. @param ports the inner port by the cluster's port */
export async function listening(of: DriverHost, image: string, ports: Record<number, number>): Promise<Sandbox> {
  const udpPorts = Object.entries(ports).map(([hostPort, servicePort]) => ({
    hostPort: Number(hostPort),
    servicePort,
  }));
  const spec = await of.spec(image, { udpPorts });
  const sandbox = { spec, place: await of.driver.create(spec) };
  await listen(sandbox);
  return sandbox;
}

export async function listen({ place, spec }: Sandbox): Promise<void> {
  const start = `/bin/busybox setsid /.platform/bin/node -e "${listener}" </dev/null >/root/listener.log 2>&1 &`;
  expect(await shell(place, spec, start)).toEqual({ exitCode: 0, output: '' });
}

/** The datagrams that a sandbox has received, in the form `<port> <text>`. */
export async function heard({ place, spec }: Sandbox): Promise<string[]> {
  return (await shell(place, spec, 'touch /root/heard; cat /root/heard')).output.split('\n');
}

export async function openSocket(from: string): Promise<dgram.Socket> {
  const socket = dgram.createSocket('udp4');
  socket.bind(0, from);
  await once(socket, 'listening');
  return socket;
}

export async function send(port: number, { address, from, text = 'hello' }: Datagram): Promise<dgram.Socket> {
  const socket = await openSocket(from);
  await new Promise<void>((resolve, reject) => {
    socket.send(text, port, address, (error) => (error ? reject(error) : resolve()));
  });
  return socket;
}

/**
 * Sends datagrams until there is an answer. Each one uses a new socket, because the kernel keeps sending a flow to the
 * node itself if it began before kube-proxy forwarded the port.
 */
export async function ask(port: number, datagram: Datagram): Promise<string> {
  const sockets: dgram.Socket[] = [];
  let answer: string | undefined;
  try {
    await until(
      async () => {
        if (answer !== undefined) return true;
        const socket = await send(port, datagram);
        sockets.push(socket);
        socket.on('message', (text) => {
          answer ??= text.toString();
        });
        return false;
      },
      45_000,
      200,
    );
  } finally {
    for (const socket of sockets) socket.close();
  }
  return answer!;
}
