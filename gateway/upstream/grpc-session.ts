import http2 from 'node:http2';
import net from 'node:net';

const idleMs = 30_000;
const connectTimeoutMs = 4000;
/** The bytes that the sandbox may send on one call before the client reads. Each of many calls may hold this much. */
const streamWindowBytes = 64 * 1024;
const keepaliveProbeDelayMs = 30_000;

/** An HTTP/2 connection to a port of a sandbox (prior knowledge, no TLS), shared by its calls. */
export class GrpcSession {
  /** Null until a tunnel to the sandbox's machine is open. */
  #session: http2.ClientHttp2Session | null = null;
  readonly ready: Promise<void>;
  #calls = 0;
  #closeWhenIdle = false;
  #isAborted = false;
  #idleTimer: NodeJS.Timeout | null = null;
  onClosed: () => void = () => undefined;

  /**
   * @param tunnel opens the connection through the sandbox's machine, or returns null when the sandbox is reached
   * directly; null: the sandbox is always reached directly
   */
  constructor(address: string, port: number, tunnel: (() => Promise<net.Socket | null>) | null = null) {
    this.ready = tunnel ? this.#openThrough(tunnel, address, port) : this.#open(address, port, null);
    this.ready.catch(() => undefined);
  }

  async #openThrough(tunnel: () => Promise<net.Socket | null>, address: string, port: number): Promise<void> {
    let socket: net.Socket | null;
    try {
      socket = await tunnel();
      // HTTP/2 bypasses the socket's own queue, so the queue must be empty first.
      if (socket) await sent(socket);
      if (this.#isAborted) {
        socket?.destroy();
        throw new Error('the sandbox is no longer reached there');
      }
    } catch (error) {
      this.#isAborted = true;
      this.onClosed();
      throw error;
    }
    return this.#open(address, port, socket);
  }

  #open(address: string, port: number, tunnel: net.Socket | null): Promise<void> {
    const session = http2.connect(`http://${address}:${port}`, {
      createConnection: () =>
        tunnel ?? net.connect({ host: address, port, keepAlive: true, keepAliveInitialDelay: keepaliveProbeDelayMs }),
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

/** Resolves when the connection is open and all bytes that were written to it are sent. */
function sent(socket: net.Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error?: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(error ?? new Error('connection closed'));
    };
    const timer = setTimeout(() => fail(new Error('connect timed out')), connectTimeoutMs);
    const onClose = () => fail();
    socket.once('error', fail);
    socket.once('close', onClose);
    socket.write('', () => {
      clearTimeout(timer);
      socket.off('error', fail);
      socket.off('close', onClose);
      resolve();
    });
  });
}
