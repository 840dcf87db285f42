import type { FastifyRequest } from 'fastify';
import type { PlanCatalog } from '../db/plans.ts';
import type { Identity } from '../db/repositories/identities.ts';
import type { Scope } from '../db/repositories/scope.ts';
import { planHeldBy } from '../db/repositories/subscriptions.ts';
import type { Plan } from '../domain/plans.ts';

/**
 * Whose rows a route reads and changes:
 * - `none`: no rows
 * - `own`: the calling user's
 * - `by_role`: the calling user's; for the account root all of the account
 * - `account`: all of the account
 * - `everything`: those of all accounts
 *
 * With `by_role` and `account` an admin works on any account as its root user does: on the one of the object that the
 * address names, or that a list's `account_id` names.
 */
export type Rows = 'none' | 'own' | 'by_role' | 'account' | 'everything';

/** Who may call a route, and whose rows it works on. Each route declares it in `config.access`. */
export type Access =
  | { who: 'anyone'; rows: 'none'; requestsPerMinute: number }
  | { who: 'user'; rows: Exclude<Rows, 'everything'>; orToken: boolean }
  | { who: 'account_root'; rows: Exclude<Rows, 'everything'> }
  | { who: 'operator'; rows: Rows };

/** No key is needed. @param limits requests of one client address (IPv6: /64); each such route states its own */
export function anyone(limits: { requestsPerMinute: number }): Access {
  return { who: 'anyone', rows: 'none', ...limits };
}

/** Every user of every account. */
export function anyUser(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'user', rows, orToken: false };
}

/** Every user, or a request with `?token=`, which the route checks itself. Such a request has no caller and no scope. */
export function anyUserOrToken(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'user', rows, orToken: true };
}

/** Root users of an account, and admins for the account of an object they name; others get 403 `root_required`. */
export function accountRoot(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'account_root', rows };
}

/** Users with the role `admin`, who operate the platform; others get 403 `admin_required`. */
export function operator(rows: Rows): Access {
  return { who: 'operator', rows };
}

/** Null: the route is not public. */
export function publicRequestsPerMinute(access: Access | undefined): number | null {
  return access?.who === 'anyone' ? access.requestsPerMinute : null;
}

/** The authenticated caller. Not for routes that `anyone` may call. */
export function callerOf(request: FastifyRequest): Identity {
  if (!request.identity) throw new Error(`${request.routeOptions.url} has no authenticated caller`);
  return request.identity;
}

/** The rows that the route declares and this caller may see. Pass it to every query. */
export function scopeOf(request: FastifyRequest): Scope {
  if (!request.scope) throw new Error(`${request.routeOptions.url} declares no rows`);
  return request.scope;
}

/** The plan of the account that the request works on, as it was bought. */
export function planOf(request: FastifyRequest, plans: PlanCatalog): Plan {
  return planHeldBy(request.operatedAccount ?? callerOf(request), plans);
}

/** The rows a declaration means for one caller. Null: none. */
export function scopeFor(rows: Rows, { accountId, userId, isRootUser }: Identity): Scope | null {
  switch (rows) {
    case 'none':
      return null;
    case 'own':
      return { rows: 'user', accountId, userId };
    case 'by_role':
      return isRootUser ? { rows: 'account', accountId } : { rows: 'user', accountId, userId };
    case 'account':
      return { rows: 'account', accountId };
    case 'everything':
      return { rows: 'everything' };
  }
}
