import { isFieldValid, nominatedNames, trimSpace, withoutNames } from '../header-fields.ts';

/** Status line and header fields of a response, without connection-level fields. */
export interface ResponseHead {
  status: number;
  reason: string;
  /** Flat list of names and values, with `Content-Length` if it applies. */
  headers: string[];
  /** The length of the body. Null when the body ends with the connection. */
  bodyLength: number | null;
  /** The token in the Upgrade field of a 101. */
  upgrade: string | null;
}

/** Receives the parts of a response. Byte ranges are valid only until the call returns. */
export interface ResponseSink {
  /** A 1xx other than 101. */
  onInformational(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** The next bytes of the body. With `last` the response is complete, and `bytes` may be empty. */
  onBody(bytes: Buffer, last: boolean, trailers: string[]): void;
  /** After a 101: bytes of the other protocol. */
  onTunnelBytes(bytes: Buffer): void;
}

/** The sandbox's bytes are not valid HTTP/1.1. */
export class MalformedResponse extends Error {
  override name = 'MalformedResponse';
}

const maxHeadBytes = 64 * 1024;
const maxChunkLineBytes = 4096;
const statusLine = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
/**
 * Chunk extensions with values that are tokens or quoted strings. White space is refused, because parsers interpret it
 * differently.
 */
const chunkSize =
  /^([0-9a-fA-F]{1,12})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*$/;
const empty = Buffer.alloc(0);
const noTrailers: string[] = [];
const cr = 13;
const lf = 10;

type State = 'head' | 'length' | 'chunked' | 'until_close' | 'tunnel' | 'complete';

/**
 * A strict parser for the responses of one connection. It does not copy bodies: a body with a length is passed on as it
 * was read, and chunks are moved together inside their buffer. With that and with big reads, it is faster than a parser
 * that passes on every chunk.
 */
export class ResponseParser {
  #sink: ResponseSink | null = null;
  #state: State = 'complete';
  #method = 'GET';
  #pendingHead: Buffer = empty;
  #remaining = 0;
  #chunks: ChunkedDecoder | null = null;
  /** The number of chunk lines that the last `feed` parsed: two for each chunk. */
  chunkLines = 0;
  /** The connection may carry another request after this response. */
  keepAlive = false;
  /** How long the server keeps the connection for the next request, in milliseconds. */
  keepAliveTimeoutMs: number | null = null;

  /** Prepares for the response to a request with that method. */
  begin(method: string, sink: ResponseSink): void {
    this.#sink = sink;
    this.#state = 'head';
    this.#method = method;
    this.#pendingHead = empty;
    this.keepAlive = false;
    this.keepAliveTimeoutMs = null;
  }

  get isComplete(): boolean {
    return this.#state === 'complete';
  }

  /** The remaining bytes of the body, as far as known. */
  get remainingBytes(): number {
    if (this.#state === 'length') return this.#remaining;
    return this.#state === 'chunked' ? this.#chunks!.remainingInChunk : 0;
  }

  /** @throws {MalformedResponse} also for bytes after the end of a response */
  feed(bytes: Buffer): void {
    this.chunkLines = 0;
    let rest = bytes;
    while (rest.length > 0) {
      switch (this.#state) {
        case 'head':
          rest = this.#feedHead(rest);
          break;
        case 'length': {
          const body = rest.length > this.#remaining ? rest.subarray(0, this.#remaining) : rest;
          rest = rest.subarray(body.length);
          this.#remaining -= body.length;
          const last = this.#remaining === 0;
          if (last) this.#state = 'complete';
          if (last && rest.length > 0) this.keepAlive = false;
          this.#sink!.onBody(body, last, noTrailers);
          break;
        }
        case 'chunked': {
          const chunks = this.#chunks!;
          const used = chunks.decode(rest);
          this.chunkLines += chunks.lines;
          rest = rest.subarray(used);
          if (chunks.done) this.#state = 'complete';
          if (chunks.done && rest.length > 0) this.keepAlive = false;
          if (chunks.done) this.#sink!.onBody(chunks.decoded, true, chunks.trailers);
          else if (chunks.decoded.length > 0) this.#sink!.onBody(chunks.decoded, false, noTrailers);
          break;
        }
        case 'until_close':
          this.#sink!.onBody(rest, false, noTrailers);
          return;
        case 'tunnel':
          this.#sink!.onTunnelBytes(rest);
          return;
        case 'complete':
          throw new MalformedResponse('bytes after the end of a response');
      }
    }
  }

  /**
   * Call this when the server has closed the connection.
   * @throws {MalformedResponse} when that does not end the current response
   */
  end(): void {
    if (this.#state === 'complete' || this.#state === 'tunnel') return;
    if (this.#state !== 'until_close') throw new MalformedResponse('closed before the response was complete');
    this.#state = 'complete';
    this.#sink!.onBody(empty, true, noTrailers);
  }

  #feedHead(bytes: Buffer): Buffer {
    const searchFrom = Math.max(0, this.#pendingHead.length - 3);
    const all = this.#pendingHead.length > 0 ? Buffer.concat([this.#pendingHead, bytes]) : bytes;
    const end = all.indexOf('\r\n\r\n', searchFrom, 'latin1');
    if ((end < 0 ? all.length : end) > maxHeadBytes) throw new MalformedResponse('header fields too large');
    if (end < 0) {
      // The buffer of a read is reused for the next read.
      this.#pendingHead = all === bytes ? Buffer.from(bytes) : all;
      return empty;
    }
    this.#pendingHead = empty;
    this.#readHead(all.toString('latin1', 0, end));
    return all.subarray(end + 4);
  }

  #readHead(text: string): void {
    const lines = text.split('\r\n');
    const status = statusLine.exec(lines[0]!);
    if (!status) throw new MalformedResponse('status line');
    const head: ResponseHead = {
      status: Number(status[2]),
      reason: status[3] ?? '',
      headers: [],
      bodyLength: null,
      upgrade: null,
    };
    let contentLength: string | null = null;
    let transferEncoding: string | null = null;
    let keepAlive = status[1] === '1';
    let nominated: Set<string> | null = null;
    for (let i = 1; i < lines.length; i++) {
      const line = lines[i]!;
      const colon = line.indexOf(':');
      const name = line.slice(0, colon);
      const value = trimSpace(line.slice(colon + 1));
      if (colon < 1 || !isFieldValid(name, value)) throw new MalformedResponse('header field');
      switch (name.toLowerCase()) {
        case 'content-length':
          if (!/^[0-9]{1,15}$/.test(value) || contentLength !== null) {
            throw new MalformedResponse('content-length');
          }
          contentLength = value;
          break;
        case 'transfer-encoding':
          // Readers disagree about a tab after the value. For some of them the body would then end with the connection.
          if (transferEncoding !== null || !/^[\t ]*chunked *$/i.test(line.slice(colon + 1))) {
            throw new MalformedResponse('transfer-encoding');
          }
          transferEncoding = value;
          break;
        case 'connection': {
          const tokens = value.toLowerCase();
          if (/(^|,)[\t ]*close[\t ]*(,|$)/.test(tokens)) keepAlive = false;
          else if (/(^|,)[\t ]*keep-alive[\t ]*(,|$)/.test(tokens)) keepAlive = true;
          nominated = nominatedNames(value, nominated);
          break;
        }
        case 'keep-alive': {
          const timeout = /(?:^|[,\s])timeout=([0-9]{1,6})/.exec(value);
          if (timeout) this.keepAliveTimeoutMs = Number(timeout[1]) * 1000;
          break;
        }
        case 'upgrade':
          head.upgrade = value;
          break;
        case 'http2-settings':
        case 'proxy-connection':
        case 'te':
        case 'trailer':
          break;
        default:
          head.headers.push(name, value);
      }
    }
    if (contentLength !== null && transferEncoding !== null) throw new MalformedResponse('two body lengths');
    if (nominated) head.headers = withoutNames(head.headers, nominated);
    this.#start(head, contentLength, transferEncoding !== null, keepAlive);
  }

  #start(head: ResponseHead, contentLength: string | null, chunked: boolean, keepAlive: boolean): void {
    const sink = this.#sink!;
    const { status } = head;
    if (status === 101) {
      this.#state = 'tunnel';
      head.bodyLength = 0;
      sink.onHead(head);
      return;
    }
    if (status < 200) {
      if (!keepAlive) throw new MalformedResponse('informational response that closes');
      head.bodyLength = 0;
      sink.onInformational(head);
      return;
    }
    this.keepAlive = keepAlive;
    if (this.#method === 'HEAD' || status === 204 || status === 304) {
      if (contentLength !== null && status !== 204) head.headers.push('Content-Length', contentLength);
      head.bodyLength = 0;
    } else if (chunked) {
      this.#chunks = new ChunkedDecoder();
    } else if (contentLength !== null) {
      head.headers.push('Content-Length', contentLength);
      head.bodyLength = Number(contentLength);
    } else {
      this.keepAlive = false;
    }
    if (head.bodyLength === 0) this.#state = 'complete';
    else if (chunked) this.#state = 'chunked';
    else if (head.bodyLength === null) this.#state = 'until_close';
    else {
      this.#state = 'length';
      this.#remaining = head.bodyLength;
    }
    sink.onHead(head);
    if (this.#state === 'complete') sink.onBody(empty, true, noTrailers);
  }
}

/** Decodes the chunked coding in place. Afterwards the data of one read is at the front of its buffer. */
class ChunkedDecoder {
  #at: 'size' | 'data' | 'data_end' | 'trailers' = 'size';
  #line = '';
  #trailerBytes = 0;
  remainingInChunk = 0;
  done = false;
  decoded: Buffer = empty;
  trailers: string[] = [];
  /** The number of chunk lines in the last `decode`. */
  lines = 0;

  /** Returns how many of the bytes belong to this body. Only when it is `done` are there fewer than all. */
  decode(bytes: Buffer): number {
    let from = 0;
    let start = 0;
    let end = 0;
    this.lines = 0;
    while (from < bytes.length && !this.done) {
      if (this.#at === 'data') {
        const length = Math.min(this.remainingInChunk, bytes.length - from);
        if (end === start) {
          start = from;
          end = from + length;
        } else {
          bytes.copyWithin(end, from, from + length);
          end += length;
        }
        from += length;
        this.remainingInChunk -= length;
        if (this.remainingInChunk === 0) this.#at = 'data_end';
        continue;
      }
      const lineEnd = bytes.indexOf(lf, from);
      const stop = lineEnd < 0 ? bytes.length : lineEnd + 1;
      this.#line += bytes.toString('latin1', from, stop);
      from = stop;
      if (this.#line.length > maxChunkLineBytes) throw new MalformedResponse('chunk line');
      if (lineEnd < 0) break;
      this.lines++;
      this.#readLine();
    }
    this.decoded = end > start ? bytes.subarray(start, end) : empty;
    return from;
  }

  #readLine(): void {
    const line = this.#line;
    this.#line = '';
    if (line.charCodeAt(line.length - 2) !== cr) throw new MalformedResponse('chunk line');
    const text = line.slice(0, -2);
    if (this.#at === 'data_end') {
      if (text !== '') throw new MalformedResponse('chunk end');
      this.#at = 'size';
    } else if (this.#at === 'size') {
      const size = chunkSize.exec(text);
      if (!size) throw new MalformedResponse('chunk size');
      this.remainingInChunk = Number.parseInt(size[1]!, 16);
      this.#at = this.remainingInChunk === 0 ? 'trailers' : 'data';
    } else if (text === '') {
      this.done = true;
    } else {
      this.#trailerBytes += text.length;
      const colon = text.indexOf(':');
      const name = text.slice(0, colon);
      const value = trimSpace(text.slice(colon + 1));
      const valid = colon > 0 && isFieldValid(name, value) && !/^(content-length|transfer-encoding)$/i.test(name);
      if (!valid || this.#trailerBytes > maxHeadBytes) throw new MalformedResponse('trailer');
      this.trailers.push(name, value);
    }
  }
}
