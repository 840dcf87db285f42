import type { Code } from '@connectrpc/connect';

/**
 * An error for the client, in the shape by which the Connect library knows its own. It differs in one thing: the
 * library's makes a `Headers` for each, and the first of those loads Node's fetch, which takes 25 ms and some MiB.
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

  /** For the library's gRPC. */
  get metadata(): Headers {
    return new Headers();
  }

  /** The library's own count, too. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'ConnectError' && 'code' in value && 'rawMessage' in value;
  }
}
