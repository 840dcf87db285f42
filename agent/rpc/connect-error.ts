import type { Code } from '@connectrpc/connect';

/**
 * An error for the client in the form that the Connect library recognizes. The only difference is that the library's
 * class makes a `Headers` object for each error, and the first one loads Node's fetch, which takes 25 ms and some MiB.
 */
export class ConnectError extends Error {
  override name = 'ConnectError';
  readonly code: Code;
  /** The text for the client. */
  readonly rawMessage: string;
  readonly details: never[] = [];
  override readonly cause: unknown;

  constructor(message: string, code: Code, cause?: unknown) {
    super(message);
    this.rawMessage = message;
    this.code = code;
    this.cause = cause;
  }

  /** Needed by the library's gRPC. */
  get metadata(): Headers {
    return new Headers();
  }

  /** Errors of the library's own class count too. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'ConnectError' && 'code' in value && 'rawMessage' in value;
  }
}
