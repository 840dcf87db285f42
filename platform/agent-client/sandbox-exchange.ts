import http, { type IncomingMessage } from 'node:http';
import net from 'node:net';
import tls from 'node:tls';
import { defaultJsonBounds, exceededBound, type JsonBounds } from '../../domain/json-bounds.ts';

const jsonBounds: JsonBounds = { ...defaultJsonBounds, maxDepth: 8, maxValues: 128, maxKeys: 128 };

/** The address of an agent, and the token for its `/platform/…` paths (agent/BOOT.md). */
export interface AgentEndpoint {
  address: string;
  port: number;
  platformToken: string;
  /** Opens the connection through the sandbox's machine. Absent: the connection goes directly to the address. */
  openTunnel?: (() => net.Socket) | undefined;
}

export interface PlatformCall {
  method: string;
  path: string;
  body?: object;
  deadlineMs: number;
  maxReplyBytes: number;
  signal?: AbortSignal;
}

/** `json` is untrusted and of unknown shape. It is undefined when the reply has no body. */
export interface AgentReply {
  status: number;
  json: unknown;
}

/**
 * Calls a platform path of an agent.
 * @throws {UnusableReply} when the agent is unreachable or too slow, or its reply exceeds a limit or is not JSON; the
 * signal's reason when it aborts
 */
export async function callAgent(agent: AgentEndpoint, call: PlatformCall): Promise<AgentReply> {
  return asJson(await exchange(requestFor(agent, call), call.maxReplyBytes));
}

/** As `callAgent`, but a reply with status 200 is a stream that the caller destroys. */
export async function callAgentForStream(
  agent: AgentEndpoint,
  call: PlatformCall,
): Promise<AgentReply | SandboxStream> {
  const reply = await openStream(requestFor(agent, call), call.maxReplyBytes);
  return reply instanceof SandboxStream ? reply : asJson(reply);
}

/**
 * A connection, through the agent, to a server that listens on a loopback address of the sandbox. Null: there is no such
 * server, or the agent did not answer in time.
 */
export function connectLoopback(
  { address, port: agentPort, platformToken }: Pick<AgentEndpoint, 'address' | 'port' | 'platformToken'>,
  port: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<net.Socket | null> {
  const request = http.request({
    host: address,
    port: agentPort,
    method: 'CONNECT',
    path: `localhost:${port}`,
    headers: { 'x-platform-token': platformToken },
    agent: false,
    signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
  });
  return new Promise((resolve) => {
    request.once('connect', (reply, socket: net.Socket) => {
      if (reply.statusCode === 200) return resolve(socket);
      socket.destroy();
      resolve(null);
    });
    request.once('error', () => resolve(null));
    request.end();
  });
}

function requestFor(agent: AgentEndpoint, { method, path, body, deadlineMs, signal }: PlatformCall): SandboxRequest {
  return {
    address: agent.address,
    port: agent.port,
    openTunnel: agent.openTunnel,
    method,
    path,
    headers: {
      'x-platform-token': agent.platformToken,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: Buffer.from(JSON.stringify(body)) }),
    deadlineMs,
    ...(signal && { signal }),
  };
}

function asJson({ status, body }: SandboxReply): AgentReply {
  if (body.length === 0) return { status, json: undefined };
  const text = body.toString('utf8');
  const exceeded = exceededBound(text, jsonBounds);
  if (exceeded) throw new UnusableReply(`the reply ${exceeded}`);
  try {
    return { status, json: JSON.parse(text) };
  } catch (cause) {
    throw new UnusableReply('the reply is not the JSON of an agent', { cause });
  }
}

/** The status line and headers of one reply, final or informational. */
const maxHeadBytes = 16 * 1024;
/** The maximum number of 1xx replies before the final one. A genuine agent sends none. */
const maxInformationalReplies = 8;
/** The maximum bytes of chunk sizes, trailers and 1xx replies, in addition to the body. */
const framingAllowanceBytes = 256 * 1024;
/** TCP probes a silent stream at this interval, so that a vanished sandbox is noticed. */
const keepAliveProbeMs = 10_000;

/** One HTTP request to a server inside a sandbox. */
interface SandboxRequest {
  address: string;
  port: number;
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: Buffer;
  /** Opens the connection through the sandbox's machine. Absent: the connection goes directly to the address. */
  openTunnel?: (() => net.Socket) | undefined;
  /** Use TLS. The certificate is not checked. */
  isTls?: boolean;
  /** The time limit from the connect to the last byte, or to the first byte of a stream. */
  deadlineMs: number;
  signal?: AbortSignal;
}

interface SandboxReply {
  status: number;
  body: Buffer;
}

/** The server inside the sandbox was unreachable, took too long, exceeded a limit, or violated the protocol. */
export class UnusableReply extends Error {
  override name = 'UnusableReply';
}

/**
 * Sends one request and reads the whole reply. The server is untrusted, because root in a sandbox can replace it. So
 * time, head, body, framing and 1xx replies are limited, upgrades are refused, and no socket is left when the promise
 * settles.
 * @throws {UnusableReply}; the signal's reason as soon as it aborts, in every state of the socket
 */
export async function exchange(request: SandboxRequest, maxBodyBytes: number): Promise<SandboxReply> {
  const connection = new SandboxConnection(request, maxBodyBytes + framingAllowanceBytes);
  try {
    const reply = await connection.head();
    return { status: reply.statusCode!, body: await readBody(connection, reply, maxBodyBytes) };
  } finally {
    connection.close();
  }
}

/** As `exchange`, but only for the status. The body is not read. */
export async function fetchStatus(request: SandboxRequest): Promise<number> {
  const connection = new SandboxConnection(request, framingAllowanceBytes);
  try {
    return (await connection.head()).statusCode!;
  } finally {
    connection.close();
  }
}

/**
 * Whether a connection is accepted in time.
 * @throws the signal's reason as soon as it aborts
 */
export async function canConnect(
  { address, port }: Pick<SandboxRequest, 'address' | 'port'>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  signal.throwIfAborted();
  const socket = net.connect({ host: address, port });
  let onAbort: (() => void) | undefined;
  try {
    return await new Promise<boolean>((resolve, reject) => {
      onAbort = () => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      socket.setTimeout(timeoutMs, () => resolve(false));
      socket.once('connect', () => resolve(true));
      socket.on('error', () => resolve(false));
    });
  } finally {
    if (onAbort) signal.removeEventListener('abort', onAbort);
    socket.destroy();
  }
}

/**
 * As `exchange`, for a reply with an endless body that the caller reads. Its head and its first byte must arrive within
 * the deadline. A reply with another status than 200 is read completely.
 */
async function openStream(request: SandboxRequest, maxOtherBodyBytes: number): Promise<SandboxStream | SandboxReply> {
  const connection = new SandboxConnection(request, null);
  try {
    const reply = await connection.head();
    if (reply.statusCode !== 200) {
      const body = await readBody(connection, reply, maxOtherBodyBytes);
      connection.close();
      return { status: reply.statusCode!, body };
    }
    const chunks = (reply as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    const first = await connection.orFailure(chunks.next());
    connection.endDeadline();
    return new SandboxStream(connection, chunks, first);
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** The body of an endless reply. It is closed by `destroy`, at its end, and when the connection breaks. */
export class SandboxStream implements AsyncIterable<Buffer> {
  readonly #connection: SandboxConnection;
  readonly #chunks: AsyncIterator<Buffer>;
  #first: IteratorResult<Buffer> | null;

  constructor(connection: SandboxConnection, chunks: AsyncIterator<Buffer>, first: IteratorResult<Buffer>) {
    this.#connection = connection;
    this.#chunks = chunks;
    this.#first = first;
  }

  /** Closes the socket. A waiting read is rejected. */
  destroy(): void {
    this.#connection.fail(new UnusableReply('the stream was closed'));
  }

  [Symbol.asyncIterator](): AsyncIterator<Buffer> {
    return {
      next: () => this.#next(),
      return: async () => {
        this.destroy();
        return { done: true, value: undefined };
      },
    };
  }

  async #next(): Promise<IteratorResult<Buffer>> {
    const first = this.#first;
    this.#first = null;
    if (first && !first.done) return first;
    let isOpen = false;
    try {
      const result = first ?? (await this.#connection.orFailure(this.#chunks.next()));
      isOpen = !result.done;
      return result;
    } finally {
      if (!isOpen) this.#connection.close();
    }
  }
}

/** A socket with one request, and one promise that every error of it rejects. */
class SandboxConnection {
  readonly #socket: net.Socket;
  readonly #request: http.ClientRequest | undefined;
  readonly #onAbort: () => void;
  readonly #signal: AbortSignal | undefined;
  readonly #waiting = new Set<(error: Error) => void>();
  readonly #head: Promise<IncomingMessage>;
  #deadline: NodeJS.Timeout;
  #failure: Error | null = null;

  /** @param maxWireBytes the limit of all received bytes, including framing; null: unlimited, for a stream */
  constructor(request: SandboxRequest, maxWireBytes: number | null) {
    const { address, port, method, path, headers, body, isTls = false, deadlineMs, signal, openTunnel } = request;
    signal?.throwIfAborted();
    this.#signal = signal;
    this.#onAbort = () => this.fail(signal!.reason);
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#deadline = setTimeout(() => this.fail(new UnusableReply(`no reply within ${deadlineMs} ms`)), deadlineMs);

    const target = { host: address, port };
    if (openTunnel) this.#socket = openTunnel();
    else this.#socket = isTls ? tls.connect({ ...target, rejectUnauthorized: false }) : net.connect(target);
    this.#socket.setKeepAlive(true, keepAliveProbeMs);
    this.#socket.on('error', (cause) => this.#refuse('the connection failed', cause));
    if (maxWireBytes !== null) {
      let received = 0;
      this.#socket.on('data', (bytes: Buffer) => {
        received += bytes.length;
        if (received > maxWireBytes) this.#refuse('the reply is too long');
      });
    }
    try {
      this.#request = http.request({
        createConnection: () => this.#socket,
        method,
        path,
        headers: { host: `${address}:${port}`, ...headers, ...(body && { 'content-length': body.length }) },
        maxHeaderSize: maxHeadBytes,
        insecureHTTPParser: false,
      });
    } catch (error) {
      this.close();
      throw new UnusableReply('the request cannot be sent', { cause: error });
    }
    this.#head = this.orFailure(this.#awaitHead(this.#request));
    // The caller may fail before it waits for the head.
    this.#head.catch(() => {});
    this.#request.end(body);
  }

  /** Waits for the final reply's status and headers. */
  head(): Promise<IncomingMessage> {
    return this.#head;
  }

  /** Waits for `work`, or until the connection fails. */
  orFailure<T>(work: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#failure) {
        work.catch(() => {});
        reject(this.#failure);
        return;
      }
      this.#waiting.add(reject);
      work.then(
        (value) => {
          this.#waiting.delete(reject);
          resolve(value);
        },
        (error) => {
          this.#waiting.delete(reject);
          reject(this.#failure ?? new UnusableReply('the reply broke off', { cause: error }));
        },
      );
    });
  }

  /** Rejects every wait and closes the socket. */
  fail(error: Error): void {
    this.#failure ??= error;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.close();
    for (const reject of waiting) reject(this.#failure);
  }

  /** From here on the reader determines the speed of the reply. */
  endDeadline(): void {
    clearTimeout(this.#deadline);
  }

  close(): void {
    this.#failure ??= new UnusableReply('the connection is closed');
    clearTimeout(this.#deadline);
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#request?.destroy();
    this.#socket.destroy();
  }

  #refuse(what: string, cause?: unknown): void {
    this.fail(new UnusableReply(what, { cause }));
  }

  #awaitHead(request: http.ClientRequest): Promise<IncomingMessage> {
    let informational = 0;
    let hasHead = false;
    return new Promise((resolve) => {
      request.on('error', (cause) => this.#refuse('the exchange failed', cause));
      request.on('information', () => {
        informational += 1;
        if (informational > maxInformationalReplies) this.#refuse('too many 1xx replies');
      });
      // Without these listeners Node closes the socket and does not tell the caller.
      request.once('upgrade', () => this.#refuse('the reply is an upgrade'));
      request.once('connect', () => this.#refuse('the reply is a tunnel'));
      request.once('close', () => {
        if (!hasHead) this.#refuse('the connection ended without a reply');
      });
      request.once('response', (reply: IncomingMessage) => {
        hasHead = true;
        // An error between two reads is reported to the next read.
        reply.on('error', () => {});
        const { statusCode = 0, httpVersionMajor } = reply;
        if (httpVersionMajor !== 1) this.#refuse('the reply is not HTTP/1');
        else if (statusCode < 200 || statusCode > 599) this.#refuse(`the reply has the status ${statusCode}`);
        else resolve(reply);
      });
    });
  }
}

/** Copies the body into one buffer, because tiny chunks would cost many times their bytes. */
async function readBody(connection: SandboxConnection, reply: IncomingMessage, maxBytes: number): Promise<Buffer> {
  let collected: Buffer = Buffer.alloc(0);
  let length = 0;
  const chunks = (reply as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  for (;;) {
    const result = await connection.orFailure(chunks.next());
    if (result.done) return collected.subarray(0, length);
    const chunk = result.value;
    if (length + chunk.length > maxBytes) throw new UnusableReply('the reply is too long');
    if (length + chunk.length > collected.length) {
      const larger = Buffer.alloc(Math.min(maxBytes, Math.max(4096, 2 * (length + chunk.length))));
      collected.copy(larger, 0, 0, length);
      collected = larger;
    }
    chunk.copy(collected, length);
    length += chunk.length;
  }
}
