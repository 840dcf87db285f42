import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ConnectRouter, HandlerContext } from '@connectrpc/connect';
import { compressionGzip, connectNodeAdapter } from '@connectrpc/connect-node';
import { toConnectError } from './errors.ts';
import { jsonWriteOptions, maxMessageBytes, type Procedure } from './procedure.ts';
import type { AgentCall } from './service.ts';

const never = 0xffff_ffff;

/**
 * The same procedures with the Connect library: gRPC, gRPC-Web, and every protocol over HTTP/2. It accepts compressed
 * messages, and does not compress replies.
 */
export function createLibraryListener(
  procedures: Iterable<Procedure>,
): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = (router: ConnectRouter) => {
    for (const procedure of procedures) router.rpc(procedure.method as never, implementation(procedure) as never);
  };
  return connectNodeAdapter({
    routes,
    readMaxBytes: maxMessageBytes,
    acceptCompression: [compressionGzip],
    compressMinBytes: never,
    jsonOptions: { ...jsonWriteOptions, ignoreUnknownFields: true },
  });
}

/** The handler in the form for the library, with the agent's own errors. */
function implementation({ method, handler }: Procedure): unknown {
  if (method.methodKind === 'server_streaming') {
    return async function* (request: unknown, context: HandlerContext) {
      try {
        yield* handler(request, callOf(context));
      } catch (error) {
        throw toConnectError(error);
      }
    };
  }
  return async (request: unknown, context: HandlerContext) => {
    try {
      return await handler(request, callOf(context));
    } catch (error) {
      throw toConnectError(error);
    }
  };
}

function callOf({ signal, requestHeader }: HandlerContext): AgentCall {
  return { signal, header: (name) => requestHeader.get(name) ?? undefined };
}
