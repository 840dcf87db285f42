/**
 * Node's internal module, which has no types: the class with which its HTTP server and client parse, which is llhttp.
 */
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
    /**
     * @returns the number of bytes that it read, which is smaller only before another protocol; or the reason for its
     * refusal
     */
    execute(bytes: Uint8Array): number | Error;
    /** The other side has closed its connection. */
    finish(): Error | undefined;
    close(): void;
  }
}
