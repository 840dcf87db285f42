import http2 from 'node:http2';
import type net from 'node:net';
import { isReplyComplete, type Opening, openingFailure, SandboxUnreachable } from './opening.ts';

const idleMs = 30_000;
const connectTimeoutMs = 4000;
/** The bytes that the sandbox may send on one call before the client reads. Each of many calls may hold this much. */
const streamWindowBytes = 64 * 1024;

/** An HTTP/2 connection to a port of a sandbox (prior knowledge, no TLS), shared by its calls. */
export class GrpcSession {
  /** Null until the connection is open. */
  #session: http2.ClientHttp2Session | null = null;
  readonly ready: Promise<void>;
  #calls = 0;
  #closeWhenIdle = false;
  #isAborted = false;
  #idleTimer: NodeJS.Timeout | null = null;
  onClosed: () => void = () => undefined;

  /** @param opened the connection to the server */
  constructor(opened: Promise<net.Socket>) {
    this.ready = this.#begin(opened);
    this.ready.catch(() => undefined);
  }

  async #begin(opened: Promise<net.Socket>): Promise<void> {
    let socket: net.Socket;
    try {
      socket = await opened;
      if (this.#isAborted) {
        socket.destroy();
        throw new SandboxUnreachable('the sandbox is no longer reached there');
      }
    } catch (error) {
      this.#isAborted = true;
      this.onClosed();
      throw error;
    }
    return this.#open(socket);
  }

  #open(socket: net.Socket): Promise<void> {
    const session = http2.connect('http://sandbox', {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: streamWindowBytes },
    });
    this.#session = session;
    session.on('error', () => undefined);
    session.on('close', () => {
      if (this.#idleTimer) clearTimeout(this.#idleTimer);
      this.onClosed();
    });
    session.on('goaway', () => {
      this.#closeWhenIdle = true;
    });
    return new Promise((resolve, reject) => {
      // A server without HTTP/2 never sends the SETTINGS frame.
      const timer = setTimeout(() => session.destroy(new Error('connect timed out')), connectTimeoutMs);
      session.once('remoteSettings', () => {
        clearTimeout(timer);
        resolve();
      });
      let failure: Error | null = null;
      session.once('error', (error) => {
        failure = error;
      });
      session.once('close', () => {
        clearTimeout(timer);
        reject(failure ?? new Error('connection closed'));
      });
    });
  }

  /** New calls may start on it. */
  get isUsable(): boolean {
    return !this.#isAborted && !this.#session?.closed && !this.#session?.destroyed && !this.#closeWhenIdle;
  }

  /** False: the sandbox has set its limit of streams to zero. */
  get allowsStreams(): boolean {
    return this.#session?.remoteSettings?.maxConcurrentStreams !== 0;
  }

  /** Starts a call; wait for `ready` first. Throws when the connection has ended meanwhile. */
  request(headers: http2.OutgoingHttpHeaders, endStream: boolean): http2.ClientHttp2Stream {
    const session = this.#session!;
    const stream = session.request(headers, { endStream, waitForTrailers: !endStream });
    this.#calls++;
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    stream.once('close', () => {
      if (--this.#calls > 0) return;
      if (this.#closeWhenIdle) session.close();
      else this.#idleTimer = setTimeout(() => session.close(), idleMs).unref();
    });
    return stream;
  }

  /** Accepts no more calls, and closes after the last call. */
  closeWhenIdle(): void {
    this.#closeWhenIdle = true;
    if (this.#calls === 0) this.#session?.close();
  }

  /** Closes at once. Calls in progress fail. */
  abort(): void {
    this.#isAborted = true;
    this.#session?.destroy();
  }
}

/**
 * Opens a connection and waits until its server's bytes come next.
 * @throws {SandboxUnreachable}
 */
export function openSocket(opening: Opening): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = opening.open();
    const fail = (error: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(openingFailure(error));
    };
    const timer = setTimeout(() => fail(new Error('connect timed out')), connectTimeoutMs);
    const onClose = () => fail(new Error('connection closed'));
    const onReadable = () => {
      const bytes: Buffer | null = socket.read(opening.reply.length);
      if (!bytes) return;
      try {
        if (isReplyComplete(opening.reply, bytes.toString('latin1'))) done();
        else fail(new Error('connection closed'));
      } catch (error) {
        fail(error as Error);
      }
    };
    const done = () => {
      clearTimeout(timer);
      socket.off('error', fail).off('close', onClose).off('readable', onReadable);
      resolve(socket);
    };
    socket.once('error', fail);
    socket.once('close', onClose);
    // HTTP/2 bypasses the socket's own queue, so the queue must be empty first.
    socket.write('', () => {
      if (opening.reply === '') done();
      else socket.on('readable', onReadable);
    });
  });
}
