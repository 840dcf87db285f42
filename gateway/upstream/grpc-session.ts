import http2 from 'node:http2';
import net from 'node:net';

const idleMs = 30_000;
const connectTimeoutMs = 4000;
/** Bytes of a call that the sandbox may send before its client reads: each of many calls may hold that much. */
const streamWindowBytes = 64 * 1024;
const keepaliveProbeDelayMs = 30_000;

/** An HTTP/2 connection to a port of a sandbox (prior knowledge, no TLS), which its calls share. */
export class GrpcSession {
  readonly #session: http2.ClientHttp2Session;
  readonly ready: Promise<void>;
  #calls = 0;
  #closeWhenIdle = false;
  #idleTimer: NodeJS.Timeout | null = null;
  onClosed: () => void = () => undefined;

  constructor(address: string, port: number) {
    this.#session = http2.connect(`http://${address}:${port}`, {
      createConnection: () =>
        net.connect({ host: address, port, keepAlive: true, keepAliveInitialDelay: keepaliveProbeDelayMs }),
      settings: { enablePush: false, initialWindowSize: streamWindowBytes },
    });
    const session = this.#session;
    session.on('error', () => undefined);
    session.on('close', () => {
      if (this.#idleTimer) clearTimeout(this.#idleTimer);
      this.onClosed();
    });
    session.on('goaway', () => {
      this.#closeWhenIdle = true;
    });
    this.ready = new Promise((resolve, reject) => {
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
    this.ready.catch(() => undefined);
  }

  /** New calls may be started on it. */
  get isUsable(): boolean {
    return !this.#session.closed && !this.#session.destroyed && !this.#closeWhenIdle;
  }

  /** The sandbox allows calls: it may set its limit of streams to zero. */
  get allowsStreams(): boolean {
    return this.#session.remoteSettings?.maxConcurrentStreams !== 0;
  }

  /** Starts a call; wait for `ready` first. Throws when the connection has ended meanwhile. */
  request(headers: http2.OutgoingHttpHeaders, endStream: boolean): http2.ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream, waitForTrailers: !endStream });
    this.#calls++;
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    stream.once('close', () => {
      if (--this.#calls > 0) return;
      if (this.#closeWhenIdle) this.#session.close();
      else this.#idleTimer = setTimeout(() => this.#session.close(), idleMs).unref();
    });
    return stream;
  }

  /** Accepts no more calls, and closes after the last one. */
  closeWhenIdle(): void {
    this.#closeWhenIdle = true;
    if (this.#calls === 0) this.#session.close();
  }

  /** Closes at once; calls in progress fail. */
  abort(): void {
    this.#session.destroy();
  }
}
