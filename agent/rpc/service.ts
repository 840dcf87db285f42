import type {
  DescMethod,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  JsonValue,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';

/** The facts of a request for its handler. */
export interface AgentCall {
  /** Aborted when the client leaves, the deadline passes, or the call has ended. */
  readonly signal: AbortSignal;
  /** The value of the request header with that lower-case name. */
  header(name: string): string | undefined;
}

/**
 * A handler of one procedure. It returns a message (or its plain initialiser), or throws a ConnectError. Any other
 * error becomes `internal` and goes to the agent's log.
 *
 * A server-streaming handler is asked for a message only after the socket has taken the previous one, so a slow client
 * slows the handler. When the client leaves, `call.signal` aborts and the iterator's `return()` is called.
 */
export type Handler<M extends DescMethod> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, call: AgentCall) => MessageInitShape<O> | Promise<MessageInitShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, call: AgentCall) => AsyncIterable<MessageInitShape<O>>
      : M extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageShape<I>>, call: AgentCall) => Promise<MessageInitShape<O>>
        : never;

/**
 * A faster way to the handler's reply, for procedures in which encoding by reflection costs more than the work itself.
 * Used for Connect without compression. Every other protocol uses the handler.
 */
export type FastPath<M extends DescMethod> =
  M extends DescMethodUnary<infer I, infer O>
    ? {
        /** The request from its usual JSON form. Undefined for any other form, which is decoded by reflection. */
        decode?: (json: JsonValue) => MessageInitShape<I> | undefined;
        /** The reply as JSON text. */
        json?: (request: MessageShape<I>, call: AgentCall) => string | Promise<string>;
        /** A long reply in parts: pieces of its JSON text, or messages that are merged. */
        parts?: {
          json: (request: MessageShape<I>, call: AgentCall) => AsyncIterable<string>;
          messages: (request: MessageShape<I>, call: AgentCall) => AsyncIterable<MessageInitShape<O>>;
        };
      }
    : M extends DescMethodServerStreaming<infer _I, infer O>
      ? {
          /**
           * Makes an encoder for one stream. It returns whole frames (with heads) in pieces, or undefined for the usual
           * encoding. The pieces are valid until the next reply is encoded.
           */
          frames?: (codec: 'json' | 'proto') => (reply: MessageInitShape<O>) => Buffer[] | undefined;
        }
      : never;

/** Handlers by the method's local name. A missing handler gives `unimplemented`. */
export type Handlers<S extends DescService> = { [P in keyof S['method']]?: Handler<S['method'][P]> };

export interface ServiceOptions<S extends DescService> {
  /** The name in the paths of its procedures, instead of the one that the proto declares. */
  name?: string;
  fast?: { [P in keyof S['method']]?: FastPath<S['method'][P]> };
  /** Procedures without the access token, because their argument is itself a credential. */
  withoutToken?: readonly (keyof S['method'] & string)[];
}

/** Any service with its handlers by method name, the form for the server. */
export interface AgentService {
  readonly name: string;
  readonly service: DescService;
  readonly handlers: Readonly<Record<string, unknown>>;
  readonly fast: Readonly<Record<string, unknown>>;
  readonly withoutToken: readonly string[];
}

/** Connects handlers to the service that the proto declares, so that their types are checked against it. */
export function agentService<S extends DescService>(
  service: S,
  handlers: Handlers<S>,
  { name = service.typeName, fast = {}, withoutToken = [] }: ServiceOptions<S> = {},
): AgentService {
  return { name, service, handlers, fast, withoutToken };
}
