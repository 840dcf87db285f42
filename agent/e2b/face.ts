import fs from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code } from '@connectrpc/connect';
import type { SandboxState } from '../boot/sandbox-state.ts';
import type { Entry } from '../filesystem/entry.ts';
import { nameOfBytes, systemPath } from '../filesystem/path.ts';
import { filesystemServices } from '../filesystem/service.ts';
import type { FileView } from '../filesystem/view.ts';
import { replyJson } from '../http/json-exchange.ts';
import type { ProcessTable, StartOptions } from '../process/process-table.ts';
import { namedUser, processServices } from '../process/service.ts';
import { replyError } from '../rpc/connect.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { type Procedure, procedureTable } from '../rpc/procedure.ts';
import type { AgentCall } from '../rpc/service.ts';
import type { FileAccess } from '../transfer/service.ts';
import { readMetadata } from './file-metadata.ts';
import { serveCompose, serveFiles } from './files.ts';
import { UsageMeter } from './usage-meter.ts';
import { findUser } from './users.ts';

/** The agent as the published clients of E2B expect it at port 49983 of a sandbox. */
export interface E2bFace {
  /** By request path. */
  procedures: ReadonlyMap<string, Procedure>;
  /** Every other path. */
  serve(req: IncomingMessage, res: ServerResponse, access: FileAccess): Promise<void> | void;
}

/** The longest timer of Node. */
const longestTimerMs = 2 ** 31 - 1;

/** The same processes and files as the agent's own services, for the user of the request and with its home folder. */
export function createE2bFace(state: SandboxState, table: ProcessTable): E2bFace {
  const procedures = procedureTable([
    ...filesystemServices(viewOf, 'filesystem.Filesystem'),
    ...processServices(table, { name: 'process.Process', readOptions, signalExitCode: -1 }),
  ]);
  const meter = new UsageMeter();

  /** What programs in a sandbox of E2B find in their environment. */
  function ownVariables(): Record<string, string> {
    return { E2B_SANDBOX: 'true', E2B_SANDBOX_ID: state.init!.sandboxId };
  }

  function readOptions(call: AgentCall): StartOptions {
    const { name } = findUser(namedUser(call));
    const timeoutMs = Number(call.header('connect-timeout-ms') || 0);
    return {
      endsWith: 'group',
      user: name,
      env: ownVariables(),
      ...(timeoutMs > 0 && { killAfterMs: Math.min(timeoutMs, longestTimerMs) }),
    };
  }

  return {
    procedures,
    serve(req, res, access) {
      const [path] = req.url!.split('?', 1);
      const route = `${req.method} ${path}`;
      if (route === 'GET /files' || route === 'HEAD /files' || route === 'POST /files') {
        return serveFiles(req, res, access);
      }
      if (!access.byHeader) {
        return replyError(req, res, new ConnectError('access token missing or wrong', Code.Unauthenticated));
      }
      if (route === 'POST /files/compose') return serveCompose(req, res);
      if (route === 'GET /envs') {
        return replyJson(req, res, 200, { ...state.env, ...state.init!.env, ...ownVariables() });
      }
      if (route === 'GET /metrics') return replyJson(req, res, 200, meter.read());
      return replyError(req, res, new ConnectError('no such path', Code.NotFound));
    },
  };
}

function viewOf(call: AgentCall): FileView {
  const { uid, gid, home } = findUser(namedUser(call));
  return { home, owner: { uid, gid }, complete };
}

/** Links name the end of their chain, and entries have their metadata. */
function complete(entry: Entry): Entry {
  if (entry.symlinkTarget !== undefined) entry.symlinkTarget = endOfLink(entry.path);
  const metadata = readMetadata(entry.path);
  if (metadata) entry.metadata = metadata;
  return entry;
}

function endOfLink(absolutePath: string): string {
  try {
    return nameOfBytes(fs.realpathSync.native(systemPath(absolutePath), 'buffer'));
  } catch {
    // It leads nowhere.
    return absolutePath;
  }
}
