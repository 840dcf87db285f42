import type net from 'node:net';
import { FairTurns } from '../../domain/fair-turns.ts';
import { isReplyComplete, type Opening, openingFailure, SandboxUnreachable } from './opening.ts';
import { release } from './released-bytes.ts';
import { MalformedResponse, ResponseParser, type ResponseSink } from './response-parser.ts';

/** The connection's user threw while handling a response. */
export class UserFault extends Error {
  override name = 'UserFault';
}

/**
 * Receives the events of a connection in addition to the response. If it throws during a response, the connection is
 * broken and `onBroken` gets the exception. The other methods must not throw.
 */
export interface ConnectionUser extends ResponseSink {
  /** The whole last read was passed on. */
  onReadDone(): void;
  /** More of the request's body can be written. */
  onWritable(): void;
  /** The connection broke, or the response is malformed. The connection is already destroyed. */
  onBroken(error: Error): void;
}

const smallReadBytes = 16 * 1024;
const bigReadBytes = 256 * 1024;
/** A body with at least this many remaining bytes is read into a big buffer. */
const bigBodyBytes = 128 * 1024;
const maxSpareBigBuffers = 16;
/**
 * The number of big buffers of this process. Connections with clients that do not read keep theirs. When all are in
 * use, connections use small buffers.
 */
const maxBigBuffers = 128;
const connectTimeoutMs = 5000;

/** A read with more chunk lines than this takes as long as many ordinary reads. */
const costlyChunkLines = 512;

/**
 * After a costly read, the sandbox waits for its turn. Otherwise libuv would continue to read at once, before any
 * timer.
 */
const costlyReads = new FairTurns(1);
const spareBigBuffers: Buffer[] = [];
let bigBuffersInUse = 0;

/**
 * One HTTP/1.1 connection to a port of a sandbox, with one request at a time. Reads reuse their buffers, so the user's
 * bytes must be sent to the client before reading continues: see `pause`.
 */
export class Http1Connection {
  readonly #address: string;
  readonly #socket: net.Socket;
  readonly #parser = new ResponseParser();
  /** The text that must arrive before the server's bytes, and the part of it that has arrived. */
  readonly #awaitedReply: string;
  #arrivedReply = '';
  #onReply: () => void = () => undefined;
  #small: Buffer | null = null;
  #big: Buffer | null = null;
  #user: ConnectionUser | null = null;
  /** The buffer that the user has, until reading continues. */
  #handedOut: Buffer | null = null;
  #readWasFull = false;
  #isReading = false;
  #paused = false;
  #waitsForTurn = false;
  #broken: Error | null = null;
  #ended = false;
  /** `performance.now()` when the connection became idle. */
  idleSinceMs = 0;
  /** The connection has carried an earlier request. */
  wasUsed = false;
  /** Bytes of the current response have arrived. */
  responseStarted = false;
  /** Called once, when the connection can carry no more requests. */
  onClosed: () => void = () => undefined;

  private constructor(address: string, opening: Opening) {
    this.#address = address;
    const onread: net.OnReadOpts = {
      buffer: () => this.#nextReadBuffer(),
      callback: (length, buffer) => this.#onRead(length, buffer),
    };
    this.#awaitedReply = opening.reply;
    this.#socket = opening.open(onread);
    this.#socket.on('error', (error) => this.#break(error));
    this.#socket.on('end', () => this.#onEnd());
    this.#socket.on('close', () => {
      this.#giveUpBig();
      this.#break(new Error('connection closed'));
      this.onClosed();
    });
    this.#socket.on('drain', () => this.#user?.onWritable());
  }

  /**
   * Rejects when the port is closed, or after 5 s.
   * @param address of the sandbox
   * @throws {SandboxUnreachable}
   */
  static connect(address: string, opening: Opening): Promise<Http1Connection> {
    return new Promise((resolve, reject) => {
      const connection = new Http1Connection(address, opening);
      const socket = connection.#socket;
      const timer = setTimeout(() => socket.destroy(new Error('connect timed out')), connectTimeoutMs);
      const connected = () => {
        clearTimeout(timer);
        socket.off('close', fail);
        resolve(connection);
      };
      if (opening.reply) connection.#onReply = connected;
      else socket.once('connect', connected);
      const fail = () => {
        clearTimeout(timer);
        reject(openingFailure(connection.#broken ?? new Error('connection closed')));
      };
      socket.once('close', fail);
    });
  }

  get isOpen(): boolean {
    return this.#broken === null && !this.#ended;
  }

  /** The response is complete and the connection can carry another request. */
  get isReusable(): boolean {
    return this.isOpen && this.#parser.isComplete && this.#parser.keepAlive && this.#canGiveUpBuffer;
  }

  /** Bytes written but not yet sent to the sandbox. */
  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  get keepAliveTimeoutMs(): number | null {
    return this.#parser.keepAliveTimeoutMs;
  }

  /** Sends a request's head. `user` gets the response. */
  send(head: string, method: string, user: ConnectionUser, { bodyFollows = false } = {}): void {
    this.#user = user;
    this.responseStarted = false;
    this.#parser.begin(method, user);
    if (bodyFollows) {
      // The head is sent in one write with the first bytes of the body. Otherwise a server that replies after the head
      // and closes would reset the connection during the body, and its reply could be lost.
      this.#socket.cork();
      setImmediate(() => this.#socket.uncork());
    }
    this.#socket.write(head, 'latin1');
  }

  /** Sends bytes of the request's body unchanged. False: wait for `onWritable`. */
  write(bytes: Buffer): boolean {
    return this.#socket.write(bytes);
  }

  /** Sends bytes of the request's body as one chunk. False: wait for `onWritable`. */
  writeChunk(bytes: Buffer): boolean {
    this.#socket.cork();
    this.#socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(bytes);
    const writable = this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
    return writable;
  }

  /** Ends a chunked body. */
  endChunks(trailers: string[]): void {
    let text = '0\r\n';
    for (let i = 0; i < trailers.length; i += 2) text += `${trailers[i]}: ${trailers[i + 1]}\r\n`;
    this.#socket.write(`${text}\r\n`, 'latin1');
  }

  /** Ends the sending side of a tunnel. */
  endTunnel(): void {
    this.#socket.end();
  }

  /** Stops reading. The bytes of the last read stay valid until `resume`. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#readOn();
  }

  /** The user no longer needs the connection, and its bytes were sent. */
  detach(): void {
    this.#user = null;
    this.wasUsed = true;
    this.idleSinceMs = performance.now();
    if (this.#big && spareBigBuffers.length < maxSpareBigBuffers) spareBigBuffers.push(this.#big);
    this.#giveUpBig();
    this.#readWasFull = false;
    this.resume();
  }

  /** Closes the connection without a call to the user. */
  destroy(): void {
    this.#user = null;
    this.#socket.destroy();
  }

  /** Closes the connection at once, even during an exchange, and reports that to its user. */
  abort(): void {
    this.#break(new SandboxUnreachable('the sandbox is no longer reached there'));
  }

  /**
   * The buffer of the next read can be replaced only during a read. Otherwise a big buffer stays with its connection.
   */
  get #canGiveUpBuffer(): boolean {
    return this.#big === null || this.#isReading;
  }

  #giveUpBig(): void {
    if (this.#big) bigBuffersInUse--;
    this.#big = null;
  }

  #readOn(): void {
    if (this.#paused || this.#waitsForTurn || this.#socket.destroyed) return;
    // During a read, the rest of the read must still be handled.
    if (!this.#isReading) this.#release();
    this.#socket.resume();
  }

  #release(): void {
    if (this.#handedOut) release(this.#handedOut);
    this.#handedOut = null;
  }

  #waitForTurn(): void {
    this.#readWasFull = false;
    this.#giveUpBig();
    this.#waitsForTurn = true;
    costlyReads.runLater(this.#address, () => {
      this.#waitsForTurn = false;
      this.#readOn();
    });
  }

  #nextReadBuffer(): Buffer {
    if (this.#big) return this.#big;
    const wantsBig = this.#readWasFull || this.#parser.remainingBytes > bigBodyBytes;
    if (wantsBig && bigBuffersInUse < maxBigBuffers) {
      bigBuffersInUse++;
      this.#big = spareBigBuffers.pop() ?? Buffer.allocUnsafeSlow(bigReadBytes);
      return this.#big;
    }
    this.#small ??= Buffer.allocUnsafeSlow(smallReadBytes);
    return this.#small;
  }

  #onRead(length: number, buffer: Uint8Array): boolean {
    if (this.#arrivedReply.length < this.#awaitedReply.length)
      return this.#onReplyRead((buffer as Buffer).subarray(0, length));
    this.responseStarted = true;
    this.#readWasFull = length === buffer.length;
    // The garbage collector frees it, because its bytes may still be on their way to the client.
    if (buffer === this.#big && length < smallReadBytes) this.#giveUpBig();
    this.#isReading = true;
    this.#handedOut = (buffer as Buffer).subarray(0, length);
    try {
      this.#parser.feed(this.#handedOut);
      this.#user?.onReadDone();
      if (this.#parser.chunkLines > costlyChunkLines) this.#waitForTurn();
    } catch (error) {
      this.#break(brokenBy(error));
      return false;
    } finally {
      this.#isReading = false;
    }
    const readsOn = !this.#paused && !this.#waitsForTurn;
    if (readsOn) this.#release();
    return readsOn;
  }

  /** An HTTP/1.1 server sends nothing before a request, so no bytes may follow the reply. */
  #onReplyRead(bytes: Buffer): boolean {
    this.#arrivedReply += bytes.toString('latin1');
    try {
      if (isReplyComplete(this.#awaitedReply, this.#arrivedReply)) this.#onReply();
      return true;
    } catch (error) {
      this.#break(error as Error);
      return false;
    }
  }

  #onEnd(): void {
    this.#ended = true;
    try {
      if (this.#user && !this.responseStarted) this.#break(new Error('closed without an answer'));
      else this.#parser.end();
      if (!this.#user) this.#socket.destroy();
    } catch (error) {
      this.#break(brokenBy(error));
    }
  }

  #break(error: Error): void {
    if (this.#broken) return;
    this.#broken = error;
    this.#socket.destroy();
    const user = this.#user;
    this.#user = null;
    user?.onBroken(error);
  }
}

function brokenBy(error: unknown): Error {
  if (error instanceof MalformedResponse) return error;
  return new UserFault('the response could not be passed on', { cause: error });
}
