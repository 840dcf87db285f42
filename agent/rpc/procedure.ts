import {
  create,
  type DescMethod,
  fromBinary,
  fromJson,
  type JsonValue,
  type Message,
  toBinary,
  toJson,
} from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ConnectError } from './connect-error.ts';
import type { AgentCall, AgentService } from './service.ts';

/** The longest accepted message in all protocols, after decompression. */
export const maxMessageBytes = 32 * 1024 * 1024;

export type Codec = 'json' | 'proto';

/** The FastPath of any method. */
interface AnyFastPath {
  decode?: (json: JsonValue) => unknown;
  json?: (request: Message, call: AgentCall) => string | Promise<string>;
  parts?: {
    json: (request: Message, call: AgentCall) => AsyncIterable<string>;
    messages: (request: Message, call: AgentCall) => AsyncIterable<unknown>;
  };
  frames?: (codec: Codec) => (reply: unknown) => Buffer[] | undefined;
}

/** One procedure that can be called with bytes. */
export interface Procedure {
  readonly method: DescMethod;
  readonly withoutToken: boolean;
  readonly fast: AnyFastPath;
  // biome-ignore lint/suspicious/noExplicitAny: the types were checked where the service was declared
  readonly handler: (input: any, call: AgentCall) => any;
}

/** The procedures of all services by request path: `/sandboxagent.Filesystem/Stat`. */
export function procedureTable(services: readonly AgentService[]): Map<string, Procedure> {
  const table = new Map<string, Procedure>();
  for (const { name, service, handlers, fast, withoutToken } of services) {
    for (const method of service.methods) {
      const unimplemented = () => {
        throw new ConnectError(`${name}/${method.name} is not implemented`, Code.Unimplemented);
      };
      table.set(`/${name}/${method.name}`, {
        method,
        withoutToken: withoutToken.includes(method.localName),
        fast: (fast[method.localName] as AnyFastPath | undefined) ?? {},
        handler: (handlers[method.localName] as Procedure['handler'] | undefined) ?? unimplemented,
      });
    }
  }
  return table;
}

/** Zero and empty values are included, so that clients without proto3 see every field. */
export const jsonWriteOptions = { alwaysEmitImplicit: true };

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Decodes the request message in `body`. An empty JSON body is an empty message.
 * @throws {ConnectError} `invalid_argument`
 */
export function decodeRequest(procedure: Procedure, codec: Codec, body: Buffer): Message {
  const schema = procedure.method.input;
  try {
    if (codec === 'proto') return fromBinary(schema, body);
    if (body.length === 0) return create(schema);
    const json = JSON.parse(utf8.decode(body));
    return (
      (procedure.fast.decode?.(json) as Message | undefined) ?? fromJson(schema, json, { ignoreUnknownFields: true })
    );
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'malformed';
    throw new ConnectError(`cannot decode ${schema.name}: ${reason}`, Code.InvalidArgument);
  }
}

/** The bytes of a binary reply, or the text of a JSON reply. */
export function encodeReply(procedure: Procedure, codec: Codec, reply: unknown): Buffer | string {
  const schema = procedure.method.output;
  // Most commands only confirm.
  if (schema.fields.length === 0) return codec === 'json' ? '{}' : Buffer.alloc(0);
  const message = isMessage(reply) ? reply : create(schema, reply as never);
  if (codec === 'json') return JSON.stringify(toJson(schema, message, jsonWriteOptions));
  const bytes = toBinary(schema, message);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isMessage(reply: unknown): reply is Message {
  return typeof reply === 'object' && reply !== null && '$typeName' in reply;
}
