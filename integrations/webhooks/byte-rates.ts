import type { Socket } from 'node:net';

const checkMs = 250;

/**
 * Closes connections that receive too many bytes per second. It is for HTTP/2, where a server can go on sending the
 * body of a reply that we have cancelled, and the connection stays in use for other requests.
 */
export class ByteRates {
  readonly #maxBytesPerCheck: number;
  /** By connection: the number of bytes at the last check. */
  readonly #received = new Map<Socket, number>();
  #timer: NodeJS.Timeout | null = null;

  constructor(maxBytesPerSecond: number) {
    this.#maxBytesPerCheck = (maxBytesPerSecond * checkMs) / 1000;
  }

  watch(socket: Socket): void {
    this.#received.set(socket, socket.bytesRead);
    socket.once('close', () => this.#forget(socket));
    this.#timer ??= setInterval(() => this.#check(), checkMs).unref();
  }

  #check(): void {
    for (const [socket, before] of this.#received) {
      if (socket.bytesRead - before > this.#maxBytesPerCheck) socket.destroy(new Error('too many bytes per second'));
      else this.#received.set(socket, socket.bytesRead);
    }
  }

  #forget(socket: Socket): void {
    this.#received.delete(socket);
    if (this.#received.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}
