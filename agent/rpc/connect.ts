import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code } from '@connectrpc/connect';
import { endEarly } from '../http/end-early.ts';
import { drained, sendHeadSoon, writeSmall, writeThrough } from '../http/response-flow.ts';
import { compress, decompress, isGzip, wantsGzip } from './compression.ts';
import { ConnectError } from './connect-error.ts';
import { errorJson, toConnectError, toHttpStatus } from './errors.ts';
import { FrameParser, frame, frameFlag, frameHeadBytes, textFrame } from './frames.ts';
import { type Codec, decodeRequest, encodeReply, maxMessageBytes, type Procedure } from './procedure.ts';
import type { AgentCall } from './service.ts';

/**
 * The Connect protocol over node:http/1.1, written for speed, because nearly all calls use it. The Connect library
 * (library.ts) serves gRPC, gRPC-Web and HTTP/2 with the same handlers.
 */

/** How long a client may pause within a request's body that is read as a whole, in milliseconds. */
const bodyIdleMs = 60_000;

/**
 * A call's view of a node request. The signal is made when a handler first uses it: most handlers do not, and an abort
 * error for every closed reply would cost more than the reply.
 */
class NodeCall implements AgentCall {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  #abort: AbortController | undefined;

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.#req = req;
    this.#res = res;
  }

  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.#res.destroyed) abort.abort();
      else this.#res.once('close', () => abort.abort());
    }
    return this.#abort.signal;
  }

  cancel(reason: ConnectError): void {
    void this.signal;
    this.#abort!.abort(reason);
  }

  header(name: string): string | undefined {
    const value = this.#req.headers[name];
    return typeof value === 'string' ? value : undefined;
  }
}

/** Reads a body to its end. @throws {ConnectError} when it is too long, or the client pauses or leaves within it */
export async function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  // Nearly every body arrives with its head, and node:http has parsed it by now.
  await null;
  const { readableLength } = req;
  if (readableLength === Number(req.headers['content-length']) && readableLength <= maxBytes) {
    return (req.read() as Buffer | null) ?? Buffer.alloc(0);
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const settle = () => {
      clearTimeout(idle);
      req.off('data', onData);
    };
    const fail = (error: ConnectError) => {
      settle();
      reject(error);
    };
    const idle = setTimeout(
      () => fail(new ConnectError('the request stopped halfway', Code.DeadlineExceeded)),
      bodyIdleMs,
    );
    const onData = (chunk: Buffer) => {
      length += chunk.length;
      if (length > maxBytes) {
        fail(new ConnectError(`message is over the limit of ${maxBytes} bytes`, Code.ResourceExhausted));
        return;
      }
      chunks.push(chunk);
      idle.refresh();
    };
    req.on('data', onData);
    req.on('end', () => {
      settle();
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length));
    });
    req.on('error', () => fail(new ConnectError('the client left', Code.Canceled)));
  });
}

/** Replies with a JSON error, even if the request was not read completely. */
export function replyError(req: IncomingMessage, res: ServerResponse, error: ConnectError): void {
  const body = JSON.stringify(errorJson(error));
  endEarly(req, res, toHttpStatus(error.code), { 'content-type': 'application/json' }, body);
}

/** Serves one unary call with the content type `application/json` or `application/proto`. */
export async function serveUnary(
  req: IncomingMessage,
  res: ServerResponse,
  procedure: Procedure,
  codec: Codec,
): Promise<void> {
  let deadline: NodeJS.Timeout | undefined;
  try {
    checkVersion(req);
    const gzip = isGzip(req.headers['content-encoding']);
    const timeoutMs = parseTimeout(req);
    const body = await readBody(req, maxMessageBytes);
    const request = decodeRequest(procedure, codec, gzip ? await decompress(body) : body);
    const contentType = codec === 'json' ? 'application/json' : 'application/proto';
    const { fast, handler } = procedure;
    const call = new NodeCall(req, res);
    if (fast.parts && !wantsGzip(req, maxMessageBytes)) {
      const parts =
        codec === 'json' ? fast.parts.json(request, call) : encodedParts(procedure, fast.parts.messages(request, call));
      await writeParts(res, contentType, parts);
      return;
    }
    let reply: Buffer | string;
    if (codec === 'json' && fast.json) reply = await fast.json(request, call);
    else {
      const handled = handler(request, call);
      if (timeoutMs === undefined) reply = encodeReply(procedure, codec, await handled);
      else {
        const late = new Promise<never>((_, reject) => {
          deadline = setTimeout(() => {
            call.cancel(pastDeadline());
            reject(pastDeadline());
          }, timeoutMs);
        });
        reply = encodeReply(procedure, codec, await Promise.race([handled, late]));
      }
    }
    const headers: Record<string, string | number> = { 'content-type': contentType };
    if (wantsGzip(req, reply.length)) {
      reply = await compress(reply);
      headers['content-encoding'] = 'gzip';
    }
    if (res.destroyed) return;
    headers['content-length'] = Buffer.byteLength(reply);
    res.writeHead(200, headers);
    res.end(reply);
  } catch (error) {
    // The client has left, so there is no reply.
    if (!res.destroyed) replyError(req, res, toConnectError(error));
  } finally {
    clearTimeout(deadline);
  }
}

/** @throws {ConnectError} `invalid_argument` when the client uses another version of the protocol */
function checkVersion(req: IncomingMessage): void {
  const version = req.headers['connect-protocol-version'];
  if (version !== undefined && version !== '1') {
    throw new ConnectError(`unsupported Connect-Protocol-Version "${version}"`, Code.InvalidArgument);
  }
}

/**
 * Milliseconds of `Connect-Timeout-Ms`. @throws {ConnectError} `invalid_argument` when it is not a number of at most
 * ten digits
 */
function parseTimeout(req: IncomingMessage): number | undefined {
  const given = req.headers['connect-timeout-ms'];
  if (given === undefined || given === '') return undefined;
  if (!/^\d{1,10}$/.test(String(given))) throw new ConnectError('malformed Connect-Timeout-Ms', Code.InvalidArgument);
  // The longest timer of Node.
  return Math.min(Number(given), 2 ** 31 - 1);
}

async function* encodedParts(procedure: Procedure, messages: AsyncIterable<unknown>): AsyncGenerator<Buffer | string> {
  for await (const message of messages) yield encodeReply(procedure, 'proto', message);
}

/** Writes a reply: one part with its length, or several parts as chunks at the client's speed. */
async function writeParts(
  res: ServerResponse,
  contentType: string,
  parts: AsyncIterable<Buffer | string>,
): Promise<void> {
  const iterator = parts[Symbol.asyncIterator]();
  const first = await iterator.next();
  const head = first.done ? '' : first.value;
  let next = await iterator.next();
  if (res.destroyed) return;
  if (next.done) {
    res.writeHead(200, { 'content-type': contentType, 'content-length': Buffer.byteLength(head) });
    res.end(head);
    return;
  }
  res.writeHead(200, { 'content-type': contentType });
  let taken = res.write(head);
  for (; !next.done; next = await iterator.next()) {
    if (!taken) await drained(res);
    if (res.destroyed) break;
    taken = res.write(next.value);
  }
  await iterator.return?.();
  res.end();
}

/** The messages of a client's stream, one at a time. The socket is not read while the handler is busy. */
async function* readMessages(req: IncomingMessage, procedure: Procedure, codec: Codec): AsyncGenerator<unknown> {
  const gzip = isGzip(req.headers['connect-content-encoding']);
  const parser = new FrameParser(maxMessageBytes);
  for await (const chunk of req) {
    for (const { flags, payload } of parser.push(chunk as Buffer)) {
      if (flags & frameFlag.endStream) return;
      yield decodeRequest(procedure, codec, await decodePayload(flags, payload, gzip));
    }
  }
  if (!parser.atBoundary) throw new ConnectError('the stream ended within a frame', Code.InvalidArgument);
}

/** The one message of a server-streaming call. */
async function readOneMessage(req: IncomingMessage, procedure: Procedure, codec: Codec): Promise<unknown> {
  const gzip = isGzip(req.headers['connect-content-encoding']);
  const parser = new FrameParser(maxMessageBytes);
  const frames = [...parser.push(await readBody(req, maxMessageBytes + frameHeadBytes))];
  const [first, second] = frames;
  if (!parser.atBoundary) throw new ConnectError('the stream ended within a frame', Code.InvalidArgument);
  if (!first || first.flags & frameFlag.endStream) throw new ConnectError('expected a message', Code.InvalidArgument);
  if (second && !(second.flags & frameFlag.endStream)) {
    throw new ConnectError('expected one message, got more', Code.InvalidArgument);
  }
  return decodeRequest(procedure, codec, await decodePayload(first.flags, first.payload, gzip));
}

function decodePayload(flags: number, payload: Buffer, gzip: boolean): Buffer | Promise<Buffer> {
  if (!(flags & frameFlag.compressed)) return payload;
  if (!gzip) throw new ConnectError('compressed frame without Connect-Content-Encoding', Code.InvalidArgument);
  return decompress(payload);
}

/**
 * Serves one streaming call with the content type `application/connect+json` or `application/connect+proto`. Replies
 * are never compressed, because they carry a process's output without delay.
 * @param onMessage called for each message of a reply
 */
export async function serveStream(
  req: IncomingMessage,
  res: ServerResponse,
  procedure: Procedure,
  codec: Codec,
  onMessage: () => void,
): Promise<void> {
  const contentType = `application/connect+${codec}`;
  const call = new NodeCall(req, res);
  let deadline: NodeJS.Timeout | undefined;
  const begin = () => {
    if (!res.headersSent) res.writeHead(200, { 'content-type': contentType });
  };
  try {
    checkVersion(req);
    const timeoutMs = parseTimeout(req);
    if (timeoutMs !== undefined) deadline = setTimeout(() => call.cancel(pastDeadline()), timeoutMs);
    if (procedure.method.methodKind === 'client_streaming') {
      const reply = await procedure.handler(readMessages(req, procedure, codec), call);
      begin();
      res.write(encodeFrame(procedure, codec, reply));
    } else {
      const request = await readOneMessage(req, procedure, codec);
      sendHeadSoon(res, begin);
      const replies: AsyncIterator<unknown> = procedure.handler(request, call)[Symbol.asyncIterator]();
      await pump(replies, call, res, begin, procedure, codec, onMessage);
    }
    call.signal.throwIfAborted();
    begin();
    res.end(textFrame(frameFlag.endStream, '{}'));
  } catch (error) {
    if (res.destroyed) return;
    begin();
    const connectError = toConnectError(error);
    res.end(textFrame(frameFlag.endStream, JSON.stringify({ error: errorJson(connectError) })));
    // If a handler fails during its client's stream, the rest of the body is never read. The parser tells the end of a
    // body after its last bytes, and a reply may be finished in between.
    const closeIfMoreComes = () => {
      if (!req.complete) req.destroy();
    };
    res.once('finish', () => setImmediate(closeIfMoreComes));
  } finally {
    clearTimeout(deadline);
  }
}

function pastDeadline(): ConnectError {
  return new ConnectError('the deadline has passed', Code.DeadlineExceeded);
}

/** Writes replies until they end, the client leaves or the deadline passes. Then the iterator is returned. */
async function pump(
  replies: AsyncIterator<unknown>,
  call: AgentCall,
  res: ServerResponse,
  begin: () => void,
  procedure: Procedure,
  codec: Codec,
  onMessage: () => void,
): Promise<void> {
  const encode = procedure.fast.frames?.(codec);
  try {
    let isFirst = true;
    for (let next = await replies.next(); !next.done; next = await replies.next()) {
      if (call.signal.aborted) break;
      onMessage();
      begin();
      const pieces = encode?.(next.value);
      // The head is written with the first message.
      if (pieces && !isFirst && writeSmall(res, ...pieces)) {
        if (res.socket?.writableNeedDrain) await drained(res.socket);
      }
      // The pieces are views of memory that the next reply reuses.
      else if (pieces) await writeThrough(res, ...pieces);
      else if (!res.write(encodeFrame(procedure, codec, next.value))) await drained(res);
      isFirst = false;
    }
  } finally {
    await replies.return?.();
  }
}

function encodeFrame(procedure: Procedure, codec: Codec, reply: unknown): Buffer {
  const encoded = encodeReply(procedure, codec, reply);
  return typeof encoded === 'string' ? textFrame(0, encoded) : frame(0, encoded);
}
