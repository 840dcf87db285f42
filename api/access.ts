import type { FastifyRequest } from 'fastify';
import type { Identity } from '../db/accounts/identities.ts';
import type { PlanCatalog } from '../db/billing/plans.ts';
import type { Scope } from '../db/core/scope.ts';
import { type Plan, planHeldBy } from '../domain/billing/plans.ts';

/**
 * The rows that a route reads and changes:
 * - `none`: no rows
 * - `own`: the rows of the calling user
 * - `by_role`: the rows of the calling user, or of the whole account for its root users
 * - `account`: all rows of the account
 * - `everything`: the rows of all accounts
 *
 * With `by_role` and `account`, an admin can work on any account with the rights of its root user: on the account of
 * the object in the address, or on the account in a list's `account_id`.
 */
export type Rows = 'none' | 'own' | 'by_role' | 'account' | 'everything';

/** Who may call a route, and which rows it works on. Each route declares it in `config.access`. */
export type Access =
  | { who: 'anyone'; rows: 'none'; requestsPerMinute: number }
  | { who: 'user'; rows: Exclude<Rows, 'everything'>; orToken: boolean }
  | { who: 'account_root'; rows: Exclude<Rows, 'everything'> }
  | { who: 'operator'; rows: Rows };

/** No key is needed. @param limits requests of one client address (IPv6: /64). Each such route sets its own limit. */
export function anyone(limits: { requestsPerMinute: number }): Access {
  return { who: 'anyone', rows: 'none', ...limits };
}

/** Every user of every account. */
export function anyUser(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'user', rows, orToken: false };
}

/** Every user, or a request with `?token=`, which the route checks. Such a request has no caller and no scope. */
export function anyUserOrToken(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'user', rows, orToken: true };
}

/** Root users of an account, and admins for the account of an object in the request. Others get 403 `root_required`. */
export function accountRoot(rows: Exclude<Rows, 'everything'>): Access {
  return { who: 'account_root', rows };
}

/** Users with the role `admin`, who operate the platform. Others get 403 `admin_required`. */
export function operator(rows: Rows): Access {
  return { who: 'operator', rows };
}

/** Null: the route is not public. */
export function publicRequestsPerMinute(access: Access | undefined): number | null {
  return access?.who === 'anyone' ? access.requestsPerMinute : null;
}

/** The authenticated caller. Not for routes with the access `anyone`. */
export function requireCaller(request: FastifyRequest): Identity {
  if (!request.identity) throw new Error(`${request.routeOptions.url} has no authenticated caller`);
  return request.identity;
}

/** The rows that the route declares and this caller may see. Pass it to every query. */
export function requireScope(request: FastifyRequest): Scope {
  if (!request.scope) throw new Error(`${request.routeOptions.url} declares no rows`);
  return request.scope;
}

/** The plan of the request's account, with the prices at the time of its purchase. */
export function requirePlan(request: FastifyRequest, plans: PlanCatalog): Plan {
  return planHeldBy(request.operatedAccount ?? requireCaller(request), plans);
}

/** The rows of a declaration for one caller. Null: none. */
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
