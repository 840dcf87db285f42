import type { Identity } from '../../db/accounts/identities.ts';
import type { OwningAccount } from '../../db/accounts/owning-accounts.ts';
import type { Scope } from '../../db/core/scope.ts';
import type { JsonBounds } from '../../domain/json-bounds.ts';
import type { Access } from '../access.ts';
import type { RouteAccess } from './access.ts';
import type { RoutePattern } from './errors.ts';
import type { IdempotencyOptions } from './idempotency.ts';
import type { RateLimiter } from './rate-limits.ts';
import type { RouteLimits } from './request-limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The platform's gateway forwards the request. */
    isForwarded: boolean;
    /** Null on public routes. Read it with `requireCaller`. */
    identity: Identity | null;
    /** Null when the route declares no rows, or there is no caller. Read it with `requireScope`. */
    scope: Scope | null;
    /**
     * The account that an admin gave, by one of its objects or by `account_id`. Null: the caller's own account, or all.
     */
    operatedAccount: OwningAccount | null;
    /** The workflow that the request started, for its log line. */
    workflowId: string | null;
    /** The id of the object that the request creates, for the audit log. */
    createdObject: string | null;
    /** The id for the object that a request with an `Idempotency-Key` makes. */
    idempotentObject: { id: string; takenOver: boolean } | null;
  }
  interface FastifyContextConfig {
    /** Who may call the route and which rows it works on. */
    access: Access;
    /** Largest body in bytes. Absent: 16 KiB if the route describes a body, otherwise 1 KiB. */
    bodyBytes?: number;
    /** Absent: `defaultJsonBounds`. */
    jsonBounds?: JsonBounds;
    /** Logged only at debug level, because probes send a request every few seconds. */
    quiet?: boolean;
    idempotency?: IdempotencyOptions;
  }
  interface FastifyInstance {
    /** Resolves when no request is in progress. */
    drained(): Promise<void>;
    /** The text of `GET /metrics`. */
    collectMetrics(): Promise<string>;
    rateLimits: { perKey: RateLimiter; perAddress: RateLimiter; perPublicRoute: RateLimiter };
    routePatterns: RoutePattern[];
    /** The access of every route, for tests. */
    routeAccess: RouteAccess[];
    /** The limits of every route, for tests and documents. */
    routeLimits: RouteLimits[];
  }
}
