import { HTTPParser } from 'node:_http_common';

/** A message as llhttp read it so far. */
export interface ReadMessage {
  method: string;
  target: string;
  status: number;
  reason: string;
  /** `1.0` or `1.1`. */
  version: string;
  /** Flat list of names and values, as sent. */
  fields: string[];
  body: string;
  /** Flat list. */
  trailers: string[];
  isComplete: boolean;
  switchesProtocol: boolean;
}

const methods = [
  'DELETE GET HEAD POST PUT CONNECT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK BIND REBIND',
  'UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE PATCH PURGE MKCALENDAR LINK UNLINK',
  'SOURCE QUERY',
].flatMap((line) => line.split(' '));
/** Larger than the limits of the gateway's parser, because limits are not compared. */
const maxHeaderBytes = 1024 * 1024;
const skipsBody = 1;

/** Node's own parser of HTTP/1, in strict mode, in this process. */
export class Llhttp {
  readonly messages: ReadMessage[] = [];
  /** The reason for its refusal. */
  refusal: string | null = null;
  readonly #parser = new HTTPParser();
  #fields: string[] = [];
  #target = '';

  /** @param method of the request to which the responses belong; null: it reads requests */
  constructor(method: string | null) {
    const parser = this.#parser;
    parser.initialize(
      method === null ? HTTPParser.REQUEST : HTTPParser.RESPONSE,
      {},
      maxHeaderBytes,
      HTTPParser.kLenientNone,
    );
    // It is called before the end of a long head, and for trailers.
    parser[HTTPParser.kOnHeaders] = (fields: string[], target: string) => {
      this.#fields.push(...fields);
      this.#target += target;
    };
    parser[HTTPParser.kOnHeadersComplete] = (
      major: number,
      minor: number,
      fields: string[] | undefined,
      methodNumber: number | undefined,
      target: string,
      status: number,
      reason: string,
      upgrade: boolean,
    ) => {
      this.messages.push({
        method: methodNumber === undefined ? '' : (methods[methodNumber] ?? String(methodNumber)),
        target: this.#target + (target ?? ''),
        status,
        reason: reason ?? '',
        version: `${major}.${minor}`,
        fields: [...this.#fields, ...(fields ?? [])],
        body: '',
        trailers: [],
        isComplete: false,
        switchesProtocol: upgrade,
      });
      this.#fields = [];
      this.#target = '';
      return method === 'HEAD' ? skipsBody : 0;
    };
    parser[HTTPParser.kOnBody] = (bytes: Buffer) => {
      this.messages.at(-1)!.body += Buffer.from(bytes).toString('latin1');
    };
    parser[HTTPParser.kOnMessageComplete] = () => {
      const message = this.messages.at(-1)!;
      message.isComplete = true;
      message.trailers = this.#fields;
      this.#fields = [];
      // It is called again for trailers.
      this.#target = '';
    };
  }

  feed(bytes: Buffer): void {
    if (this.refusal !== null || this.messages.at(-1)?.switchesProtocol) return;
    const taken = this.#parser.execute(bytes);
    if (typeof taken !== 'number') this.refusal = (taken as Error & { code?: string }).code ?? taken.message;
  }

  /** The other side has closed its connection. */
  end(): void {
    if (this.refusal !== null) return;
    const error = this.#parser.finish();
    if (error) this.refusal = (error as Error & { code?: string }).code ?? error.message;
  }
}
