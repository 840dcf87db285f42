import { once } from 'node:events';
import net from 'node:net';

/**
 * One kept-alive HTTP/1.1 connection with minimal work, so that the server is what is measured. It reads replies with a
 * length or in chunks. Bodies may be read while they arrive.
 */
export class Connection {
  readonly #socket: net.Socket;
  readonly #authority: string;
  #rest: Buffer = Buffer.alloc(0);
  #reading: Reading | undefined;

  private constructor(socket: net.Socket, port: number) {
    this.#socket = socket;
    this.#authority = `127.0.0.1:${port}`;
    socket.on('data', (bytes) => this.#take(bytes));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the server closed the connection')));
  }

  static async open(port: number): Promise<Connection> {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new Connection(socket, port);
  }

  /** Resolves with the body, or with an empty one if `onBytes` took it. @throws {Error} for a status that is not 200 */
  request(head: string, body: Buffer | undefined, onBytes?: (bytes: Buffer) => void): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#reading = { resolve, reject, onBytes, pieces: [], status: 0, left: 0, chunked: false, state: 'head' };
      const length =
        head.startsWith('GET') || head.includes('Content-Length') ? '' : `Content-Length: ${body?.length ?? 0}\r\n`;
      const text = Buffer.from(`${head}Host: ${this.#authority}\r\n${length}\r\n`, 'latin1');
      this.#socket.write(body ? Buffer.concat([text, body]) : text);
    });
  }

  /** For bodies that are too large for memory. Resolves when the kernel can take more. */
  async write(bytes: Buffer): Promise<void> {
    if (!this.#socket.write(bytes)) await once(this.#socket, 'drain');
  }

  close(): void {
    this.#reading = undefined;
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    this.#reading?.reject(error);
    this.#reading = undefined;
  }

  #take(arrived: Buffer): void {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, arrived]) : arrived;
    while (this.#reading && bytes.length > 0) {
      const used = this.#step(this.#reading, bytes);
      if (used < 0) break;
      bytes = bytes.subarray(used);
    }
    this.#rest = bytes;
  }

  /** The number of used bytes. -1: more bytes are needed first. */
  #step(reading: Reading, bytes: Buffer): number {
    if (reading.state === 'head') {
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0) return -1;
      const head = bytes.toString('latin1', 0, end);
      reading.status = Number(head.slice(9, 12));
      reading.chunked = /transfer-encoding: chunked/i.test(head);
      reading.left = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      reading.state = reading.chunked ? 'size' : 'body';
      if (!reading.chunked && reading.left === 0) this.#finish(reading);
      return end + 4;
    }
    if (reading.state === 'size') {
      const end = bytes.indexOf('\r\n');
      if (end < 0) return -1;
      reading.left = Number.parseInt(bytes.toString('latin1', 0, end), 16);
      reading.state = reading.left === 0 ? 'last' : 'body';
      return end + 2;
    }
    if (reading.state === 'body') {
      const length = Math.min(reading.left, bytes.length);
      const piece = bytes.subarray(0, length);
      if (reading.onBytes) reading.onBytes(piece);
      else reading.pieces.push(piece);
      reading.left -= length;
      if (reading.left === 0) {
        if (reading.chunked) reading.state = 'gap';
        else this.#finish(reading);
      }
      return length;
    }
    if (bytes.length < 2) return -1;
    if (reading.state === 'gap') reading.state = 'size';
    else this.#finish(reading);
    return 2;
  }

  #finish(reading: Reading): void {
    this.#reading = undefined;
    const body = Buffer.concat(reading.pieces);
    if (reading.status === 200) reading.resolve(body);
    else reading.reject(new Error(`status ${reading.status}: ${body}`));
  }
}

interface Reading {
  resolve(body: Buffer): void;
  reject(error: Error): void;
  onBytes: ((bytes: Buffer) => void) | undefined;
  pieces: Buffer[];
  status: number;
  left: number;
  chunked: boolean;
  state: 'head' | 'size' | 'body' | 'gap' | 'last';
}
