import type { BoundedLog } from './bounded-log.ts';
import { GatewayError } from './error-reply.ts';

/** The means of a boundary to end its exchange. */
interface EndableExchange {
  readonly requestId: string;
  readonly isClosed: boolean;
  /** The final response has not begun, so it can still become an error. */
  readonly canRefuse: boolean;
  refuse(error: GatewayError): void;
  abort(): void;
  destroy(): void;
}

/**
 * Confines an exception to the exchange that caused it. Every callback of an event or a timer that serves an exchange
 * runs in its boundary. An exception there is logged. The exchange then gets status 502, or its response is broken off
 * if it has begun.
 */
export class FaultBoundary {
  readonly #exchange: EndableExchange;
  readonly #log: BoundedLog;

  constructor(exchange: EndableExchange, log: BoundedLog) {
    this.#exchange = exchange;
    this.#log = log;
  }

  run(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Wraps a listener so that it cannot throw. */
  wrap<Args extends unknown[]>(listener: (...args: Args) => void): (...args: Args) => void {
    return (...args) => this.run(() => listener(...args));
  }

  /** Ends the exchange after an unexpected error. */
  fail(error: unknown): void {
    const exchange = this.#exchange;
    this.#log.write('error', { err: error, requestId: exchange.requestId }, 'exchange failed');
    if (exchange.isClosed) return;
    try {
      if (exchange.canRefuse) exchange.refuse(badResponse());
      else exchange.abort();
    } catch (secondError) {
      this.#log.write('error', { err: secondError, requestId: exchange.requestId }, 'failed exchange did not end');
      exchange.destroy();
    }
  }
}

/**
 * Wraps a listener of a connection so that it cannot throw: an exception is logged, and `end` closes the connection.
 */
export function guarded<Args extends unknown[]>(
  log: BoundedLog,
  listener: (...args: Args) => void,
  end: (...args: Args) => void,
): (...args: Args) => void {
  return (...args) => {
    try {
      listener(...args);
    } catch (error) {
      log.write('error', { err: error }, 'connection failed');
      end(...args);
    }
  };
}

export function badResponse(): GatewayError {
  return new GatewayError(502, 'sandbox_bad_response', 'The server in the sandbox does not send valid HTTP');
}
