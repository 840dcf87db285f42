/** A part's head, a piece of its content, or its end; after the last part, the end of the body. */
export type MultipartEvent =
  | { kind: 'part'; name: string; filename: string | undefined }
  | { kind: 'data'; bytes: Buffer }
  | { kind: 'partEnd' }
  | { kind: 'end' };

/** The body is not valid by RFC 7578. The text may be shown. */
export class MultipartError extends Error {
  override name = 'MultipartError';
}

const maxHeadBytes = 16 * 1024;
const maxPreambleBytes = 64 * 1024;
const carriageReturn = 13;

/** The boundary in a `multipart/form-data` content type. Undefined for other types, or without a boundary. */
export function parseBoundary(contentType: string | undefined): string | undefined {
  if (!contentType || !/^multipart\/form-data\s*(;|$)/i.test(contentType)) return undefined;
  const match = /;\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType);
  return match?.[1] ?? match?.[2];
}

/**
 * Splits a multipart body that arrives in arbitrary pieces into its parts. Content is passed on as views of the input.
 * Only the possible beginning of a delimiter, and the head of a part, are kept back.
 */
export class MultipartParser {
  readonly #delimiter: Buffer;
  readonly #maxParts: number;
  #state: 'preamble' | 'afterDelimiter' | 'head' | 'content' | 'end' = 'preamble';
  /** The first delimiter may be at the very start of the body. The parser treats that start as the end of a line. */
  #held: Buffer = Buffer.from('\r\n');
  #parts = 0;
  #skipped = 0;

  constructor(boundary: string, { maxParts }: { maxParts: number }) {
    this.#maxParts = maxParts;
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
  }

  /** Whether the closing delimiter was read. */
  get finished(): boolean {
    return this.#state === 'end';
  }

  /** Takes the next bytes and yields the events that they complete. @throws {MultipartError} */
  *push(chunk: Buffer): Generator<MultipartEvent> {
    let buffer = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = buffer.subarray(0, 0);
    while (this.#state !== 'end') {
      if (this.#state === 'afterDelimiter') {
        if (buffer.length < 2) break;
        const line = buffer.toString('latin1', 0, 2);
        if (line === '--') {
          this.#state = 'end';
          yield { kind: 'end' };
          return;
        }
        if (line !== '\r\n') {
          // White space may follow a delimiter.
          if (buffer[0] !== 32 && buffer[0] !== 9) throw new MultipartError('malformed boundary line');
          buffer = buffer.subarray(1);
          continue;
        }
        if (++this.#parts > this.#maxParts) throw new MultipartError('too many parts');
        // The line's end stays in the buffer, so that a head without fields is an empty line too.
        this.#state = 'head';
      } else if (this.#state === 'head') {
        const end = buffer.indexOf('\r\n\r\n');
        if (end < 0 ? buffer.length > maxHeadBytes : end > maxHeadBytes)
          throw new MultipartError('part header too long');
        if (end < 0) break;
        const { name, filename } = parseHead(buffer.toString('utf8', 2, end));
        buffer = buffer.subarray(end + 4);
        this.#state = 'content';
        yield { kind: 'part', name, filename };
      } else {
        const at = buffer.indexOf(this.#delimiter);
        if (at < 0) {
          const keep = this.#possibleDelimiter(buffer);
          yield* this.#content(buffer.subarray(0, keep));
          buffer = buffer.subarray(keep);
          break;
        }
        yield* this.#content(buffer.subarray(0, at));
        if (this.#state === 'content') yield { kind: 'partEnd' };
        buffer = buffer.subarray(at + this.#delimiter.length);
        this.#state = 'afterDelimiter';
      }
    }
    // A copy, because the kept bytes must not keep a whole chunk in memory.
    this.#held = Buffer.from(buffer);
  }

  *#content(bytes: Buffer): Generator<MultipartEvent> {
    if (this.#state === 'preamble') {
      this.#skipped += bytes.length;
      if (this.#skipped > maxPreambleBytes) throw new MultipartError('no boundary found');
    } else if (bytes.length > 0) yield { kind: 'data', bytes };
  }

  /** The place at which the buffer's end may cut off a delimiter. The buffer's length if there is none. */
  #possibleDelimiter(buffer: Buffer): number {
    let at = Math.max(buffer.length - this.#delimiter.length + 1, 0);
    while (true) {
      at = buffer.indexOf(carriageReturn, at);
      if (at < 0) return buffer.length;
      if (buffer.compare(this.#delimiter, 0, buffer.length - at, at) === 0) return at;
      at += 1;
    }
  }
}

/** The name and file name of a part. @throws {MultipartError} */
function parseHead(head: string): { name: string; filename: string | undefined } {
  const disposition = /^content-disposition:\s*form-data\s*((?:;.*)?)$/im.exec(head)?.[1];
  if (disposition === undefined) throw new MultipartError('part without Content-Disposition: form-data');
  const name = parameter(disposition, 'name');
  if (name === undefined) throw new MultipartError('part without a name');
  return { name, filename: parameter(disposition, 'filename') };
}

function parameter(disposition: string, name: string): string | undefined {
  const match = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]*))`, 'i').exec(disposition);
  if (!match) return undefined;
  // Browsers percent-encode quotes and line ends in a file name. Other clients use a backslash.
  return (
    match[2] ??
    match[1]!
      .replace(/\\(["\\])/g, '$1')
      .replace(/%(22|0A|0D)/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  );
}
