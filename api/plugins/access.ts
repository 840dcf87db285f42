import type { FastifyRequest, FastifySchema, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import type { Identity } from '../../db/accounts/identities.ts';
import { findOwningAccount } from '../../db/accounts/owning-accounts.ts';
import type { Scope } from '../../db/core/scope.ts';
import type { Orm } from '../../db/orm.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { type Access, scopeFor } from '../access.ts';
import { everyAccount } from '../schemas/lists.ts';

/** The enforced access of a route. */
export interface RouteAccess {
  method: string;
  url: string;
  access: Access;
}

/**
 * Enforces `config.access` of every route: refuses callers without access, and gives the handler its scope of rows
 * (`requireScope`). The API does not start if a route lacks a declaration. `/openapi.json` shows each declaration as
 * `x-access`.
 */
export const access = fp<{ orm: Orm }>(
  async (app, { orm }) => {
    const routes: RouteOptions[] = [];
    const declared: RouteAccess[] = [];
    app.decorate('routeAccess', declared);
    app.decorateRequest('scope', null);
    app.addHook('onRoute', (route) => {
      routes.push(route);
    });
    // Plugins that are registered later may still add declarations to their routes.
    app.addHook('onReady', async () => {
      for (const route of routes) declared.push(...declaredAccess(route));
    });
    app.decorateRequest('operatedAccount', null);
    app.addHook('onRequest', async (request) => {
      const { identity } = request;
      if (!identity) return;
      const named = nameOfAccount(request, identity);
      requireRole(request, identity, named !== null);
      const { rows } = request.routeOptions.config.access;
      if (named === null) request.scope = scopeFor(rows, identity);
      else if (named === everyAccount) request.scope = { rows: 'everything' };
      else request.scope = await operate(request, identity, named);
    });

    /**
     * If an object has no account, the scope is the caller's own account. The handler does not find the object there.
     */
    async function operate(request: FastifyRequest, { accountId }: Identity, named: string): Promise<Scope> {
      const operated = await findOwningAccount(orm.em, named);
      const namesObject = Object.values(request.params as Record<string, string>).includes(named);
      if (!namesObject && !(operated && isId('account', named))) throw notFound('Account');
      request.operatedAccount = operated;
      return { rows: 'account', accountId: operated?.accountId ?? accountId };
    }
  },
  { name: 'access', dependencies: ['authentication'] },
);

/** The declaration of a route for each of its methods. Also adds it to the OpenAPI document. */
function declaredAccess(route: RouteOptions): RouteAccess[] {
  const { url, config, schema } = route;
  const methods = [route.method].flat();
  const access = config?.access;
  if (!access) throw new Error(`${methods} ${url} does not declare who may call it: set config.access`);
  const documented = { 'x-access': { who: access.who, rows: access.rows }, ...describeSecurity(access) };
  route.schema = { ...schema, ...documented };
  return methods.map((method) => ({ method, url, access }));
}

/** Absent: the default security of the document applies. */
function describeSecurity(access: Access): { security?: Record<string, string[]>[] } {
  if (access.who === 'anyone') return { security: [] };
  if (access.who === 'user' && access.orToken) {
    return { security: [{ apiKey: [] }, { authorization: [] }, { accessToken: [] }, { session: [] }, {}] };
  }
  return {};
}

/**
 * The account that an admin works on, given by the id of an object in the address or by the `account_id` of a list.
 * Null: the caller's own account.
 * @throws {AppError} `admin_required` when another user names an account
 */
function nameOfAccount({ params, query, routeOptions }: FastifyRequest, identity: Identity): string | null {
  const { rows } = routeOptions.config.access;
  if (rows !== 'by_role' && rows !== 'account') return null;
  const account = filtersByAccount(routeOptions.schema) ? (query as { account_id?: unknown }).account_id : undefined;
  if (typeof account === 'string' && account !== '') {
    if (identity.role === 'admin') return account;
    if (account !== identity.accountId) throw new AppError('admin_required', 'Only admins may see other accounts');
  }
  if (identity.role !== 'admin') return null;
  const [, id] =
    Object.entries(params as Record<string, string>).find(([name]) => name === 'id' || name.endsWith('_id')) ?? [];
  return id ?? null;
}

function filtersByAccount(schema: FastifySchema | undefined): boolean {
  const { shape } = (schema?.querystring ?? {}) as { shape?: object };
  return shape !== undefined && 'account_id' in shape;
}

/** @throws {AppError} `root_required`, `admin_required`, `account_suspended` */
function requireRole({ method, routeOptions }: FastifyRequest, identity: Identity, namesAccount: boolean): void {
  const { who } = routeOptions.config.access;
  if (who === 'account_root' && !identity.isRootUser && !namesAccount) {
    throw new AppError('root_required', 'Only an account root user may do this');
  }
  if (who === 'operator' && identity.role !== 'admin') {
    throw new AppError('admin_required', 'Only operators of the platform may do this');
  }
  if (identity.isSuspended && method !== 'GET' && method !== 'HEAD') {
    throw new AppError('account_suspended', 'The account is suspended');
  }
}
