import type { FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { AppError } from '../../domain/errors.ts';
import { type Access, scopeFor } from '../access.ts';

/** Who may call a route and whose rows it works on, as it is enforced. */
export interface RouteAccess {
  method: string;
  url: string;
  access: Access;
}

/**
 * Enforces `config.access` of every route: refuses callers that may not call it, and gives its handler the scope of rows
 * (`scopeOf`). A route without a declaration keeps the API from starting. `/openapi.json` shows each as `x-access`.
 */
export const access = fp(
  async (app) => {
    const routes: RouteOptions[] = [];
    const declared: RouteAccess[] = [];
    app.decorate('routeAccess', declared);
    app.decorateRequest('scope', null);
    app.addHook('onRoute', (route) => {
      routes.push(route);
    });
    // Plugins that are registered later may still add the declaration of their routes.
    app.addHook('onReady', async () => {
      for (const route of routes) declared.push(...declaredAccess(route));
    });
    app.addHook('onRequest', async (request) => {
      requireRole(request);
      const { rows } = request.routeOptions.config.access;
      request.scope = request.identity && scopeFor(rows, request.identity);
    });
  },
  { name: 'access', dependencies: ['authentication'] },
);

/** The declaration of a route, by method; puts it into its part of the OpenAPI document, too. */
function declaredAccess(route: RouteOptions): RouteAccess[] {
  const { url, config, schema } = route;
  const methods = [route.method].flat();
  const access = config?.access;
  if (!access) throw new Error(`${methods} ${url} does not declare who may call it: set config.access`);
  const documented = { 'x-access': { who: access.who, rows: access.rows }, ...securityOf(access) };
  route.schema = { ...schema, ...documented };
  return methods.map((method) => ({ method, url, access }));
}

/** Left out: the security of the whole document. */
function securityOf(access: Access): { security?: Record<string, string[]>[] } {
  if (access.who === 'anyone') return { security: [] };
  if (access.who === 'user' && access.orToken) {
    return { security: [{ apiKey: [] }, { authorization: [] }, { accessToken: [] }, {}] };
  }
  return {};
}

/** @throws {AppError} `root_required`, `admin_required`, `account_suspended` */
function requireRole({ identity, method, routeOptions }: FastifyRequest): void {
  const { who } = routeOptions.config.access;
  // Authentication has let in only requests that need no caller.
  if (!identity) return;
  if (who === 'account_root' && !identity.isRootUser) {
    throw new AppError('root_required', 'Only an account root user may do this');
  }
  if (who === 'operator' && identity.role !== 'admin') {
    throw new AppError('admin_required', 'Only operators of the platform may do this');
  }
  if (identity.isSuspended && method !== 'GET' && method !== 'HEAD') {
    throw new AppError('account_suspended', 'The account is suspended');
  }
}
