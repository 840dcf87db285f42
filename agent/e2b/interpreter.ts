import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code } from '@connectrpc/connect';
import type { ContextInfo } from '../contexts/context.ts';
import type { ExecuteRequest } from '../contexts/contexts.ts';
import type { OpenContexts } from '../contexts/service.ts';
import { statPath } from '../filesystem/path.ts';
import { endEarly } from '../http/end-early.ts';
import { replyJson } from '../http/json-exchange.ts';
import { drained } from '../http/response-flow.ts';
import { readBody } from '../rpc/connect.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError, toHttpStatus } from '../rpc/errors.ts';
import { maxMessageBytes } from '../rpc/procedure.ts';
import { eventLines } from './interpreter-events.ts';

/** The parts of the agent that the interpreter uses, and the facts of one request. */
export interface InterpreterCall {
  /** The request has the sandbox's token, or the sandbox requires none. */
  isAuthorized: boolean;
  contexts: OpenContexts;
  /** The home folder of processes. */
  home: string;
  /** Called for each event of an execution. */
  onEvent: () => void;
}

/** E2B's programs expect this folder. */
const userFolder = '/home/user';
/** A proxy between client and agent notices a dead client only when it writes. */
const keepaliveMs = 5000;
const maxReasonLength = 200;
/** The short names of E2B. */
const shortNames: Record<string, string> = { js: 'javascript', ts: 'typescript' };

/**
 * The code interpreter of E2B's clients on the sandbox's code contexts: `/interpreter/execute`, `/contexts`,
 * `/contexts/{id}`, `/contexts/{id}/restart` and `/health`.
 */
export async function serveInterpreter(
  req: IncomingMessage,
  res: ServerResponse,
  call: InterpreterCall,
): Promise<void> {
  try {
    if (!call.isAuthorized) throw new ConnectError('access token missing or wrong', Code.Unauthenticated);
    const path = req.url!.slice('/interpreter'.length).replace(/\?.*$/s, '');
    const [, contextId, action] = /^\/contexts\/([^/]+)(\/restart)?$/.exec(path) ?? [];
    if (path === '/execute') {
      allow(req, 'POST');
      await execute(req, res, call);
    } else if (path === '/contexts') {
      allow(req, 'GET', 'POST');
      const { method } = req;
      replyJson(req, res, 200, method === 'GET' ? await listContexts(call) : await createContext(req, res, call));
    } else if (contextId !== undefined) {
      allow(req, action ? 'POST' : 'DELETE');
      const contexts = await call.contexts();
      if (action) await contexts.restart(contextId);
      else await contexts.destroy(contextId);
      replyJson(req, res, 200, null);
    } else if (path === '/health') {
      allow(req, 'GET', 'HEAD');
      replyJson(req, res, 200, 'OK');
    } else throw new ConnectError('no such path', Code.NotFound);
  } catch (error) {
    if (res.destroyed) return;
    if (error instanceof WrongMethod) endEarly(req, res, 405, { allow: error.message }, '');
    else replyError(req, res, toConnectError(error));
  }
}

async function execute(req: IncomingMessage, res: ServerResponse, call: InterpreterCall): Promise<void> {
  const request = readExecuteRequest(await readObject(req));
  if (request.contextId === '') request.defaultCwd = await defaultFolder(call.home);
  const contexts = await call.contexts();
  const signal = signalOf(res);
  const events = await contexts.prepare(request, signal);
  if (signal.aborted) return;
  // Clients limit the time until the head, and another limit is for the code.
  res.writeHead(200, { 'content-type': 'application/json' });
  res.flushHeaders();
  const keepalive = setInterval(() => {
    if (!res.writableNeedDrain) res.write('{"type":"keepalive"}\n');
  }, keepaliveMs);
  try {
    for await (const event of events) {
      if (signal.aborted) return;
      call.onEvent();
      keepalive.refresh();
      let taken = true;
      for (const line of eventLines(event)) taken = res.write(line);
      if (!taken) await drained(res);
    }
    if (!signal.aborted) res.end('{"type":"end_of_execution"}\n');
  } finally {
    clearInterval(keepalive);
  }
}

async function createContext(req: IncomingMessage, res: ServerResponse, call: InterpreterCall): Promise<object> {
  const body = await readObject(req);
  const language = readLanguage(body.language) || 'python';
  const cwd = optionalText(body.cwd, 'cwd') || (await defaultFolder(call.home));
  const contexts = await call.contexts();
  return describe(await contexts.create({ language, cwd }, signalOf(res)));
}

async function listContexts(call: InterpreterCall): Promise<object[]> {
  const contexts = await call.contexts();
  return contexts.list().map(describe);
}

const describe = ({ id, language, cwd }: ContextInfo) => ({ id, language, cwd });

/** The folder of contexts without an own one. */
async function defaultFolder(home: string): Promise<string> {
  const stats = await statPath(userFolder).catch(() => undefined);
  return stats?.isDirectory() ? userFolder : home;
}

function readExecuteRequest(body: Record<string, unknown>): ExecuteRequest {
  if (typeof body.code !== 'string') throw invalid('code must be a text');
  const contextId = optionalText(body.context_id, 'context_id');
  const language = readLanguage(body.language);
  if (contextId !== '' && language !== '') throw invalid('give either context_id or language');
  const envVars: Record<string, string> = {};
  for (const [name, value] of Object.entries(readRecord(body.env_vars ?? {}, 'env_vars'))) {
    if (typeof value !== 'string') throw invalid('env_vars must hold texts');
    envVars[name] = value;
  }
  return { contextId, code: body.code, language, envVars, wantsData: true, wantsJson: true };
}

function readLanguage(value: unknown): string {
  const name = optionalText(value, 'language').trim().toLowerCase();
  return Object.hasOwn(shortNames, name) ? shortNames[name]! : name;
}

/** The JSON object of the request's body. An empty body is an empty object. */
async function readObject(req: IncomingMessage): Promise<Record<string, unknown>> {
  const bytes = await readBody(req, maxMessageBytes);
  let body: unknown;
  try {
    body = bytes.length === 0 ? {} : JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw invalid('the body is not JSON');
  }
  return readRecord(body, 'the body');
}

function readRecord(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw invalid(`${name} must be an object`);
}

function optionalText(value: unknown, name: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') throw invalid(`${name} must be a text`);
  return value;
}

class WrongMethod extends Error {}

function allow(req: IncomingMessage, ...methods: string[]): void {
  if (!methods.includes(req.method!)) throw new WrongMethod(methods.join(', '));
}

function invalid(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}

/** Aborts when the client leaves. */
function signalOf(res: ServerResponse): AbortSignal {
  const abort = new AbortController();
  if (res.destroyed) abort.abort();
  else res.once('close', () => abort.abort());
  return abort.signal;
}

/** The clients show the body, and some of them only the reason phrase. */
function replyError(req: IncomingMessage, res: ServerResponse, error: ConnectError): void {
  const reason = error.rawMessage.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, maxReasonLength);
  if (req.httpVersionMajor === 1) res.statusMessage = reason;
  endEarly(req, res, toHttpStatus(error.code), { 'content-type': 'text/plain; charset=utf-8' }, error.rawMessage);
}
