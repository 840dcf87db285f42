import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { IdleMemory } from '../boot/idle-memory.ts';
import type { SandboxState } from '../boot/sandbox-state.ts';
import { contextServices, contextsOf } from '../contexts/service.ts';
import type { E2bFace } from '../e2b/face.ts';
import { ExecService } from '../exec/service.ts';
import { filesystemServices } from '../filesystem/service.ts';
import { ProcessTable } from '../process/process-table.ts';
import { processServices } from '../process/service.ts';
import { replyError, serveStream, serveUnary } from '../rpc/connect.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import type { LibraryListener } from '../rpc/library.ts';
import { type Procedure, procedureTable } from '../rpc/procedure.ts';
import { type FileAccess, serveArchive, serveFiles } from '../transfer/service.ts';
import { sameSecret } from './access.ts';
import { allowCrossOrigin } from './cross-origin.ts';
import { endEarly } from './end-early.ts';
import type { RequestListener } from './request-listener.ts';

export interface LoadedPaths {
  /** Every path of the sandbox's clients: files and procedures, protected by the access token. */
  serve: RequestListener;
  /** Paths only for the platform. The caller has checked its token. */
  serveExec: RequestListener;
  /** Releases memory that is not needed until the next request. */
  releaseMemory(): void;
}

/** The paths of E2B's clients. */
const e2bPath = /^\/(?:filesystem\.Filesystem\/|process\.Process\/|(?:files|files\/compose|envs|metrics)(?:\?|$))/;

/** Procedures by request path. */
type Procedures = ReadonlyMap<string, Procedure>;

/** All paths except those that a fresh agent must answer at once. */
export function createSandboxPaths(state: SandboxState, environment: AgentEnvironment): LoadedPaths {
  const table = new ProcessTable(environment);
  const contexts = contextsOf(environment);
  const procedures = procedureTable([
    ...filesystemServices(() => ({ home: environment.home() })),
    ...processServices(table),
    ...contextServices(contexts),
  ]);
  let e2b: E2bFace | undefined;
  /** Loaded when its first client comes, because most sandboxes have none. */
  const loadE2b = async () => {
    const { createE2bFace } = await import('../e2b/face.ts');
    e2b ??= createE2bFace(state, table);
    return e2b;
  };

  const idle = new IdleMemory();
  const touch = () => idle.touch();
  const libraries = new Map<Procedures, LibraryListener>();
  const serveByLibrary = async (
    req: IncomingMessage,
    res: ServerResponse,
    all: Procedures,
    procedure: Procedure,
  ): Promise<void> => {
    const { createLibraryListener } = await import('../rpc/library.ts');
    const library = libraries.get(all) ?? createLibraryListener(all.values());
    libraries.set(all, library);
    library(req, res, procedure);
  };

  const serveInterpreter = async (req: IncomingMessage, res: ServerResponse) => {
    const { serveInterpreter: serve } = await import('../e2b/interpreter.ts');
    await serve(req, res, { isAuthorized: opened(req), contexts, home: environment.home(), onEvent: touch });
  };

  const opened = (req: IncomingMessage) => {
    const token = state.init!.accessToken;
    if (token === null) return true;
    const given = req.headers['x-access-token'];
    return typeof given === 'string' && sameSecret(given, token);
  };

  const exec = new ExecService(state, environment);
  const serve: RequestListener = (req, res) => {
    touch();
    res.once('close', touch);
    if (req.headers.origin !== undefined && allowCrossOrigin(req, res)) return;
    if (!state.init) return replyError(req, res, new ConnectError('the sandbox is not ready yet', Code.Unavailable));
    const url = req.url!;
    const procedure = procedures.get(url);
    if (procedure) return serveProcedure(req, res, procedures, procedure);
    const access = { byHeader: opened(req), accessToken: state.init.accessToken };
    if (url === '/upload' || url.startsWith('/upload?') || url.startsWith('/download/')) {
      return serveFiles(req, res, access, environment);
    }
    if (url === '/archive' || url.startsWith('/archive?')) return serveArchive(req, res, access, environment);
    if (e2bPath.test(url)) return serveE2b(req, res, access);
    if (url.startsWith('/interpreter/')) return serveInterpreter(req, res);
    return replyError(req, res, new ConnectError('no such procedure', Code.Unimplemented));
  };
  const serveE2b = async (req: IncomingMessage, res: ServerResponse, access: FileAccess): Promise<void> => {
    const face = e2b ?? (await loadE2b());
    const procedure = face.procedures.get(req.url!);
    if (procedure) await serveProcedure(req, res, face.procedures, procedure);
    else await face.serve(req, res, access);
  };
  const serveProcedure = (
    req: IncomingMessage,
    res: ServerResponse,
    all: Procedures,
    procedure: Procedure,
  ): Promise<void> | void => {
    if (!procedure.withoutToken && !opened(req)) {
      return replyError(req, res, new ConnectError('access token missing or wrong', Code.Unauthenticated));
    }
    if (req.method !== 'POST') return endEarly(req, res, 405, { allow: 'POST' }, '');
    const contentType = (req.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
    if (req.httpVersionMajor > 1 || contentType.startsWith('application/grpc')) {
      return serveByLibrary(req, res, all, procedure);
    }
    return serveConnect(req, res, procedure, contentType, touch);
  };
  const serveExec: RequestListener = (req, res) => {
    res.once('close', touch);
    return exec.serve(req, res);
  };
  return { serve, serveExec, releaseMemory: () => idle.release() };
}

/** Chooses codec and kind of call by the content type, as the Connect protocol defines. */
function serveConnect(
  req: IncomingMessage,
  res: ServerResponse,
  procedure: Procedure,
  contentType: string,
  onMessage: () => void,
): Promise<void> | void {
  const unary = procedure.method.methodKind === 'unary';
  const prefix = unary ? 'application/' : 'application/connect+';
  const codec = contentType.startsWith(prefix) ? contentType.slice(prefix.length) : '';
  if (codec === 'json' || codec === 'proto') {
    return unary ? serveUnary(req, res, procedure, codec) : serveStream(req, res, procedure, codec, onMessage);
  }
  const accepted = `${prefix}json, ${prefix}proto, application/grpc-web, application/grpc`;
  endEarly(req, res, 415, { 'accept-post': accepted }, '');
}
