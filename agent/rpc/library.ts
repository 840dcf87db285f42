import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  Code,
  ConnectError,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from '@connectrpc/connect';
import {
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from '@connectrpc/connect-node';
import { sendHeadSoon } from '../http/response-flow.ts';
import { toConnectError } from './errors.ts';
import { jsonWriteOptions, maxMessageBytes, type Procedure } from './procedure.ts';
import type { AgentCall } from './service.ts';

const never = 0xffff_ffff;

const responseKey = createContextKey<ServerResponse | null>(null);

/** Serves one of its procedures. */
export type LibraryListener = (req: IncomingMessage, res: ServerResponse, procedure: Procedure) => void;

/**
 * The same procedures with the Connect library: gRPC, gRPC-Web, and every protocol over HTTP/2. It accepts compressed
 * messages, and does not compress replies.
 */
export function createLibraryListener(procedures: Iterable<Procedure>): LibraryListener {
  const router = createConnectRouter({
    readMaxBytes: maxMessageBytes,
    acceptCompression: [compressionGzip],
    compressMinBytes: never,
    jsonOptions: { ...jsonWriteOptions, ignoreUnknownFields: true },
  });
  for (const procedure of procedures) router.rpc(procedure.method as never, implementation(procedure) as never);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return (req, res, { method }) => {
    const values = createContextValues().set(responseKey, res);
    handlers.get(`/${method.parent.typeName}/${method.name}`)!(
      universalRequestFromNodeRequest(req, res, undefined, values),
    )
      .then((reply) => universalResponseToNodeResponse(reply, res))
      .catch((error) => {
        // The client has left.
        if (ConnectError.from(error).code !== Code.Aborted) console.error('agent:', error);
      });
  };
}

/** The handler in the form for the library, with the agent's own errors. */
function implementation({ method, handler }: Procedure): unknown {
  if (method.methodKind === 'server_streaming') {
    return async function* (request: unknown, context: HandlerContext) {
      const res = context.values.get(responseKey)!;
      sendHeadSoon(res, () => {
        if (res.headersSent) return;
        res.writeHead(200, Object.fromEntries(context.responseHeader));
        // The library writes the head together with the first message.
        res.writeHead = () => res;
      });
      try {
        yield* handler(request, toAgentCall(context));
      } catch (error) {
        throw toConnectError(error);
      }
    };
  }
  return async (request: unknown, context: HandlerContext) => {
    try {
      return await handler(request, toAgentCall(context));
    } catch (error) {
      throw toConnectError(error);
    }
  };
}

function toAgentCall({ signal, requestHeader }: HandlerContext): AgentCall {
  return { signal, header: (name) => requestHeader.get(name) ?? undefined };
}
