import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { Code, ConnectError } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import type { PlatformPaths } from '../boot/platform.ts';
import type { SandboxState } from '../boot/sandbox-state.ts';
import { replyError, serveStream, serveUnary } from '../rpc/connect.ts';
import type { Procedure } from '../rpc/procedure.ts';
import { serveFiles } from '../transfer/service.ts';
import { sameSecret } from './access.ts';

/** Longest request head; longer ones are answered 431. */
const maxHeadBytes = 64 * 1024;
/** How long a client may take for a request's head, in milliseconds. */
const headTimeoutMs = 60_000;

export interface AgentServerParts {
  state: SandboxState;
  platform: PlatformPaths;
  environment: AgentEnvironment;
  procedures: Map<string, Procedure>;
}

/** The agent's HTTP server: `/health`, the platform's paths, files, and the procedures; not yet listening. */
export function createAgentServer({ state, platform, environment, procedures }: AgentServerParts): http.Server {
  const opened = (req: IncomingMessage) => {
    const token = state.init!.accessToken;
    if (token === null) return true;
    const given = req.headers['x-access-token'];
    return typeof given === 'string' && sameSecret(given, token);
  };

  const serve = (req: IncomingMessage, res: ServerResponse): Promise<void> | void => {
    const url = req.url!;
    const procedure = procedures.get(url);
    if (!procedure) {
      const path = url.split('?', 1)[0]!;
      if (path === '/health') return serveHealth(req, res);
      if (path.startsWith('/platform/')) return platform.serve(req, res);
      if (!state.init) return replyError(req, res, notReady());
      if (path === '/upload' || path.startsWith('/download/')) {
        return serveFiles(req, res, { byHeader: opened(req), accessToken: state.init.accessToken }, environment);
      }
      return replyError(req, res, new ConnectError(`${path}: no such procedure`, Code.Unimplemented));
    }
    if (!state.init) return replyError(req, res, notReady());
    if (!procedure.withoutToken && !opened(req)) {
      return replyError(req, res, new ConnectError('access token missing or wrong', Code.Unauthenticated));
    }
    return serveProcedure(req, res, procedure);
  };

  return http.createServer(
    {
      maxHeaderSize: maxHeadBytes,
      headersTimeout: headTimeoutMs,
      // Uploads and streams of input last as long as they last.
      requestTimeout: 0,
      keepAliveTimeout: 120_000,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
    },
    (req, res) => {
      // Nothing that one request throws may end the agent.
      Promise.resolve(serve(req, res)).catch((error) => {
        console.error('agent:', error);
        res.destroy();
      });
    },
  );
}

function serveHealth(req: IncomingMessage, res: ServerResponse): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    res.writeHead(405, { allow: 'GET, HEAD', 'content-length': 0 }).end();
    return;
  }
  res.writeHead(200, { 'content-type': 'text/plain', 'content-length': 2 });
  res.end('OK');
}

function notReady(): ConnectError {
  return new ConnectError('the sandbox is not ready yet', Code.Unavailable);
}

/** Picks the codec and the kind of call by the content type, as the Connect protocol has it. */
function serveProcedure(req: IncomingMessage, res: ServerResponse, procedure: Procedure): Promise<void> | void {
  const contentType = (req.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
  const unary = procedure.method.methodKind === 'unary';
  if (req.method !== 'POST') {
    res.writeHead(405, { allow: 'POST', 'content-length': 0 }).end();
    return;
  }
  if (unary && contentType === 'application/json') return serveUnary(req, res, procedure, 'json');
  if (unary && contentType === 'application/proto') return serveUnary(req, res, procedure, 'proto');
  if (!unary && contentType === 'application/connect+json') return serveStream(req, res, procedure, 'json');
  if (!unary && contentType === 'application/connect+proto') return serveStream(req, res, procedure, 'proto');
  const accepted = unary
    ? 'application/json, application/proto'
    : 'application/connect+json, application/connect+proto';
  res.writeHead(415, { 'accept-post': accepted, 'content-length': 0 }).end();
}
