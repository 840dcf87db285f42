import dgram from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** A nameserver on loopback that resolves every name to one address, which can be changed at any time. */
export class NameServer {
  readonly #socket = dgram.createSocket('udp4');
  /** IPv4. */
  answer: string;
  /** The number of queries. */
  asked = 0;

  private constructor(answer: string) {
    this.answer = answer;
    this.#socket.on('message', (query, from) => this.#socket.send(this.#answer(query), from.port, from.address));
  }

  static async start(answer: string, { host = '127.0.0.1', port = 0 } = {}): Promise<NameServer> {
    const server = new NameServer(answer);
    server.#socket.unref();
    server.#socket.bind(port, host);
    await once(server.#socket, 'listening');
    return server;
  }

  get address(): string {
    const { address, port } = this.#socket.address() as AddressInfo;
    return `${address}:${port}`;
  }

  stop(): Promise<void> {
    return new Promise((resolve) => this.#socket.close(resolve));
  }

  /** RFC 1035: the query's id and question, and for type A one answer that must not be cached. */
  #answer(query: Buffer): Buffer {
    let end = 12;
    while (query[end] !== 0) end += query[end]! + 1;
    const question = query.subarray(12, end + 5);
    const isIpv4 = query.readUInt16BE(end + 1) === 1;
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    header.writeUInt16BE(0x8180, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(isIpv4 ? 1 : 0, 6);
    if (!isIpv4) return Buffer.concat([header, question]);
    this.asked += 1;
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...this.answer.split('.').map(Number)]);
    return Buffer.concat([header, question, answer]);
  }
}
