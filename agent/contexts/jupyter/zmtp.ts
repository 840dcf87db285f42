import net from 'node:net';

/**
 * The client's half of ZMTP 3.0 (rfc.zeromq.org/spec/23) with the NULL mechanism, without native code. A Jupyter client
 * needs no more. A DEALER sends and receives. A SUB is subscribed to everything.
 */

/** The address of a ZeroMQ socket: `{ path }` of a Unix socket, or `{ host, port }`. */
export type Endpoint = { path: string } | { host: string; port: number };

const greeting = Buffer.alloc(64);
greeting.set([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
greeting.write('NULL', 12, 'latin1');

const flagMore = 1;
const flagLong = 2;
const flagCommand = 4;

/** Longer frames are skipped, because a kernel may print endlessly into one message. */
const longestFrameBytes = 256 * 1024 * 1024;

export interface ZmtpEvents {
  /** The handshake is complete. Messages that are sent from now on arrive. */
  onReady(): void;
  /** A frame over the limit is null. */
  onMessage(frames: (Buffer | null)[]): void;
  /** The connection was refused, lost or closed. */
  onClose(error: Error | undefined): void;
}

export class ZmtpSocket {
  readonly #type: 'DEALER' | 'SUB';
  readonly #events: ZmtpEvents;
  readonly #socket: net.Socket;
  readonly #reader = new ByteReader();
  #greeted = false;
  #ready = false;
  #frames: (Buffer | null)[] = [];
  #error: Error | undefined;

  constructor(type: 'DEALER' | 'SUB', endpoint: Endpoint, events: ZmtpEvents) {
    this.#type = type;
    this.#events = events;
    this.#socket = net.connect(endpoint);
    this.#socket.write(greeting);
    this.#socket.on('data', (chunk) => this.#receive(chunk));
    this.#socket.on('error', (error) => {
      this.#error = error;
    });
    this.#socket.on('close', () => events.onClose(this.#error));
  }

  /** Sends one message. */
  send(frames: Buffer[]): void {
    this.#socket.cork();
    frames.forEach((frame, index) => {
      this.#sendFrame(index < frames.length - 1 ? flagMore : 0, frame);
    });
    this.#socket.uncork();
  }

  /** Stops reading. The kernel's sends block when the buffers in between are full. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.destroy();
  }

  #sendFrame(flags: number, payload: Buffer): void {
    const long = payload.length > 255;
    const head = Buffer.alloc(long ? 9 : 2);
    head[0] = flags | (long ? flagLong : 0);
    if (long) head.writeBigUInt64BE(BigInt(payload.length), 1);
    else head[1] = payload.length;
    this.#socket.write(head);
    this.#socket.write(payload);
  }

  #receive(chunk: Buffer): void {
    this.#reader.push(chunk);
    if (!this.#greeted) {
      const theirs = this.#reader.read(64);
      if (theirs === undefined) return;
      if (theirs[0] !== 0xff || theirs[10]! < 3 || theirs.toString('latin1', 12, 17) !== 'NULL\0') {
        this.#socket.destroy(new Error('the kernel does not speak ZMTP 3 without encryption'));
        return;
      }
      this.#greeted = true;
      this.#sendFrame(flagCommand, readyCommand(this.#type));
    }
    for (let frame = this.#reader.readFrame(); frame !== undefined; frame = this.#reader.readFrame()) {
      if (frame.flags & flagCommand) this.#receiveCommand(frame.payload);
      else {
        this.#frames.push(frame.payload);
        if (frame.flags & flagMore) continue;
        const message = this.#frames;
        this.#frames = [];
        this.#events.onMessage(message);
      }
    }
  }

  #receiveCommand(payload: Buffer | null): void {
    const name = payload?.toString('latin1', 1, 1 + payload[0]!);
    if (name === 'READY' && !this.#ready) {
      this.#ready = true;
      // In ZMTP 3.0 a subscription is a message: the byte 1, then the topic. An empty topic matches every topic.
      if (this.#type === 'SUB') this.send([Buffer.of(1)]);
      this.#events.onReady();
    } else if (name === 'ERROR') {
      this.#socket.destroy(new Error(`the kernel refused the connection: ${payload!.toString('latin1', 7)}`));
    }
  }
}

function readyCommand(type: string): Buffer {
  const property = (name: string, value: string) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(value.length);
    return Buffer.concat([Buffer.of(name.length), Buffer.from(name), length, Buffer.from(value)]);
  };
  return Buffer.concat([Buffer.of(5), Buffer.from('READY'), property('Socket-Type', type), property('Identity', '')]);
}

/** Bytes that arrive in pieces. Reads the lengths that the protocol needs without repeatedly joining the pieces. */
class ByteReader {
  #chunks: Buffer[] = [];
  #length = 0;
  /** The head of a frame with an incomplete payload. */
  #head: { flags: number; length: number } | undefined;
  #toSkip = 0;

  push(chunk: Buffer): void {
    const skipped = Math.min(this.#toSkip, chunk.length);
    this.#toSkip -= skipped;
    if (skipped === chunk.length) return;
    this.#chunks.push(skipped === 0 ? chunk : chunk.subarray(skipped));
    this.#length += chunk.length - skipped;
  }

  read(length: number): Buffer | undefined {
    if (this.#length < length) return undefined;
    const first = this.#chunks[0] ?? Buffer.alloc(0);
    const joined = first.length >= length ? first : Buffer.concat(this.#chunks);
    if (joined !== first) this.#chunks = [joined];
    if (joined.length === length) this.#chunks.shift();
    else this.#chunks[0] = joined.subarray(length);
    this.#length -= length;
    return joined.subarray(0, length);
  }

  readFrame(): { flags: number; payload: Buffer | null } | undefined {
    if (!this.#head) {
      const first = this.#chunks[0];
      if (!first || this.#length < 2) return undefined;
      const flags = first[0]!;
      const bytes = this.read(flags & flagLong ? 9 : 2);
      if (!bytes) return undefined;
      this.#head = { flags, length: flags & flagLong ? Number(bytes.readBigUInt64BE(1)) : bytes[1]! };
    }
    const { flags, length } = this.#head;
    if (length > longestFrameBytes) {
      this.#head = undefined;
      this.#skip(length);
      return { flags, payload: null };
    }
    const payload = length === 0 ? Buffer.alloc(0) : this.read(length);
    if (!payload) return undefined;
    this.#head = undefined;
    return { flags, payload };
  }

  #skip(length: number): void {
    const have = Math.min(length, this.#length);
    if (have > 0) this.read(have);
    this.#toSkip = length - have;
  }
}
