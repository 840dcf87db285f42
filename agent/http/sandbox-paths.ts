import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code, ConnectError } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import type { SandboxState } from '../boot/sandbox-state.ts';
import { contextServices } from '../contexts/service.ts';
import { filesystemServices } from '../filesystem/service.ts';
import { processServices } from '../process/service.ts';
import { replyError, serveStream, serveUnary } from '../rpc/connect.ts';
import { type Procedure, procedureTable } from '../rpc/procedure.ts';
import { serveFiles } from '../transfer/service.ts';
import { sameSecret } from './access.ts';
import type { RequestListener } from './server.ts';

/** Everything the sandbox's clients call: files and the procedures, behind the access token (section 5). */
export function createSandboxPaths(state: SandboxState, environment: AgentEnvironment): RequestListener {
  const procedures = procedureTable([
    ...filesystemServices(environment),
    ...processServices(environment),
    ...contextServices(environment),
  ]);

  const opened = (req: IncomingMessage) => {
    const token = state.init!.accessToken;
    if (token === null) return true;
    const given = req.headers['x-access-token'];
    return typeof given === 'string' && sameSecret(given, token);
  };

  return (req, res) => {
    if (!state.init) return replyError(req, res, new ConnectError('the sandbox is not ready yet', Code.Unavailable));
    const url = req.url!;
    const procedure = procedures.get(url);
    if (procedure) {
      if (procedure.withoutToken || opened(req)) return serveProcedure(req, res, procedure);
      return replyError(req, res, new ConnectError('access token missing or wrong', Code.Unauthenticated));
    }
    if (url === '/upload' || url.startsWith('/upload?') || url.startsWith('/download/')) {
      return serveFiles(req, res, { byHeader: opened(req), accessToken: state.init.accessToken }, environment);
    }
    return replyError(req, res, new ConnectError('no such procedure', Code.Unimplemented));
  };
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
