import type {
  DescMethod,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';

/** What a handler may know about the request it serves. The Connect library's HandlerContext is one, too. */
export interface AgentCall {
  /** Aborted when the client leaves, the deadline passes, or the call has ended. */
  readonly signal: AbortSignal;
  readonly requestHeader: Headers;
}

/**
 * A handler of one procedure. It answers with a message (or its plain initialiser), or throws a ConnectError; whatever
 * else it throws is answered as `internal` and written to the agent's log.
 *
 * A server-streaming handler is read one message at a time, and not before the one before was taken by the socket: a
 * slow client slows the handler. When the client leaves, `call.signal` aborts and the iterator's `return()` is called.
 */
export type Handler<M extends DescMethod> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, call: AgentCall) => MessageInitShape<O> | Promise<MessageInitShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, call: AgentCall) => AsyncIterable<MessageInitShape<O>>
      : M extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageShape<I>>, call: AgentCall) => Promise<MessageInitShape<O>>
        : never;

/** Hand-written encodings of a procedure's replies, for those that have to be faster than reflection. */
export interface FastEncoding {
  /** The JSON form of the reply, in pieces to write one after the other; undefined: encode as any other. */
  json?: (reply: never) => Iterable<Buffer | string> | undefined;
  /** One whole frame of a stream (five-byte head included), in pieces; undefined: encode as any other. */
  frame?: (reply: never, codec: 'json' | 'proto') => Buffer[] | undefined;
}

/** Any service, its handlers by method name: what the server is made from. */
export interface AgentService {
  readonly service: DescService;
  readonly handlers: Readonly<Record<string, unknown>>;
  readonly fast: Readonly<Record<string, FastEncoding | undefined>>;
  /** Procedures served without the access token, because their argument is itself a credential. */
  readonly withoutToken: readonly string[];
}

export interface ServiceOptions<S extends DescService> {
  fast?: { [P in keyof S['method']]?: FastEncoding };
  withoutToken?: readonly (keyof S['method'] & string)[];
}

/**
 * Ties handlers, by the method's local name, to the service that the proto declares, so that their types are checked
 * against it. What is left out answers `unimplemented`.
 */
export function agentService<S extends DescService>(
  service: S,
  handlers: { [P in keyof S['method']]?: Handler<S['method'][P]> },
  { fast = {}, withoutToken = [] }: ServiceOptions<S> = {},
): AgentService {
  return { service, handlers, fast, withoutToken };
}
