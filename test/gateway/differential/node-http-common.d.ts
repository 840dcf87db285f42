/** Node's own module, without types of its own: the class that its HTTP server and client parse with, which is llhttp. */
declare module 'node:_http_common' {
  export class HTTPParser {
    static readonly REQUEST: number;
    static readonly RESPONSE: number;
    static readonly kOnHeaders: number;
    static readonly kOnHeadersComplete: number;
    static readonly kOnBody: number;
    static readonly kOnMessageComplete: number;
    static readonly kLenientNone: number;
    [callback: number]: (...args: never[]) => unknown;
    initialize(type: number, resource: object, maxHeaderBytes: number, lenientFlags: number): void;
    /** @returns how many bytes it took, fewer than all only before another protocol; or why it refuses them */
    execute(bytes: Uint8Array): number | Error;
    /** The other side has closed. */
    finish(): Error | undefined;
    close(): void;
  }
}
