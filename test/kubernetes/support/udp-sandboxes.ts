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

/** A datagram of this machine. */
export interface Datagram {
  /** Where it goes. */
  address: string;
  /** The address of this machine that it comes from. */
  from: string;
  text?: string;
}

/** Answers with its name and the sender's address, and writes down what it hears. */
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

/** Makes a sandbox that answers on the ports 5000 and 5001, with these ports of the cluster by those inside. */
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

/** `<port> <text>` of each datagram that it has heard. */
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
 * Asks until there is an answer, each time as a new flow: the kernel leads one that came before kube-proxy had the port to
 * the node itself.
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
