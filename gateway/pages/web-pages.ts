import { chooseEncoding } from '../../domain/content-encoding.ts';
import { GatewayError } from '../error-reply.ts';
import type { Exchange } from '../exchange.ts';
import type { SandboxRoute } from '../routes.ts';
import { secretsEqual } from '../signed-query.ts';
import type { ResponseHead } from '../upstream/response-parser.ts';
import { pageReplyHead, useAccessToken } from './agent-calls.ts';
import { allowedMethods } from './agent-procedures.ts';
import { checkOwnOrigin, findFieldValues } from './own-origin.ts';
import type { PageAssets } from './page-assets.ts';
import { documentReply, plainReply } from './page-documents.ts';
import type { PagePath } from './page-paths.ts';
import { sealSession, sessionCookieField, sessionEnd, sessionSeconds } from './page-session.ts';

/** A call of a page that is forwarded to the agent. */
export interface PageCall {
  target: string;
  /** Unix milliseconds at which the call is cut. Null: the sandbox needs no token. */
  endsAtMs: number | null;
  replyHead: (head: ResponseHead) => ResponseHead;
}

export interface PageRequest {
  exchange: Exchange;
  route: SandboxRoute;
  path: PagePath;
  /** The unchanged Host of the client. */
  host: string;
  isRunning: boolean;
}

/**
 * `/terminal` and `/files` on a sandbox's own host name: documents, their assets, the session, and calls of the agent.
 */
export class WebPages {
  readonly #assets: PageAssets;

  constructor(assets: PageAssets) {
    this.#assets = assets;
  }

  /**
   * Answers requests for public files, for every status of the sandbox, because an open page explains the status and
   * continues when the sandbox does. A document has status 502 while the sandbox does not run.
   * @returns whether the request was answered
   */
  serveStatic({ exchange, path, host, isRunning }: PageRequest): boolean {
    if (path.kind === 'nothing') throw notFound();
    if (path.kind !== 'document' && path.kind !== 'asset') return false;
    requireMethod(exchange, ['GET', 'HEAD']);
    if (path.kind === 'document') {
      const { script, style, title } = this.#assets.entries[path.page];
      const status = isRunning ? 200 : 502;
      documentReply(exchange, { status, page: path.page, host: host.toLowerCase(), title, script, style });
      return true;
    }
    const asset = this.#assets.files.get(path.name);
    if (!asset) throw notFound();
    const encoding = chooseEncoding(findFieldValues(exchange.headers.forward, 'accept-encoding').join());
    const caching = ['Cache-Control', 'public, max-age=31536000, immutable', 'Vary', 'Accept-Encoding'];
    const coding = encoding ? ['Content-Encoding', encoding] : [];
    const bytes = encoding ? asset.compressed[encoding] : asset.bytes;
    plainReply(exchange, 200, ['Content-Type', asset.type, ...caching, ...coding], bytes);
    return true;
  }

  /**
   * Serves the session, or a call of the agent. The caller has checked that the sandbox runs and its owner is not
   * disabled.
   * @returns the call to forward; null when the request was answered
   * @throws {GatewayError} 401 without a session or with a wrong token, 403 `cross_origin`, 404, 405
   */
  serve({ exchange, route, path, host }: PageRequest): PageCall | null {
    if (path.kind !== 'session' && path.kind !== 'agent') throw notFound();
    if (exchange.isWebSocket) throw notFound();
    requireMethod(exchange, path.kind === 'session' ? ['GET', 'POST'] : allowedMethods[path.procedure.kind]);
    checkOwnOrigin(exchange, host);
    if (path.kind === 'session' && exchange.method === 'POST') {
      this.#openSession(exchange, route);
      return null;
    }
    const endsAtSeconds = sessionEnd(exchange.headers.pageSessions, route, Date.now());
    if (route.secure && endsAtSeconds === null) {
      throw new GatewayError(401, 'unauthenticated', 'There is no session, or it has expired: open the link again');
    }
    if (path.kind === 'session') {
      plainReply(exchange, 204, ['Cache-Control', 'no-store'], null);
      return null;
    }
    const { procedure, target } = path;
    useAccessToken(exchange.headers, route);
    return {
      target,
      endsAtMs: route.secure ? endsAtSeconds! * 1000 : null,
      replyHead: (head) => pageReplyHead(head, procedure.kind),
    };
  }

  #openSession(exchange: Exchange, { sandboxId, accessToken }: SandboxRoute): void {
    const given = exchange.headers.accessToken;
    if (!accessToken || given === null || !secretsEqual(given, accessToken)) {
      throw new GatewayError(401, 'unauthenticated', 'This is not the access token of the sandbox');
    }
    const value = sealSession(sandboxId, accessToken, Math.floor(Date.now() / 1000) + sessionSeconds);
    plainReply(exchange, 204, ['Set-Cookie', sessionCookieField(value), 'Cache-Control', 'no-store'], null);
  }
}

function requireMethod({ method }: Exchange, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  throw new GatewayError(405, 'method_not_allowed', `Use ${allowed.join(' or ')}`);
}

function notFound(): GatewayError {
  return new GatewayError(404, 'not_found', 'Not found');
}
