import type { Identity } from '../../db/repositories/identities.ts';
import type { OwningAccount } from '../../db/repositories/owning-accounts.ts';
import type { Scope } from '../../db/repositories/scope.ts';
import type { JsonBounds } from '../../domain/json-bounds.ts';
import type { Access } from '../access.ts';
import type { RouteAccess } from './access.ts';
import type { RoutePattern } from './errors.ts';
import type { IdempotencyOptions } from './idempotency.ts';
import type { RateLimiter } from './rate-limits.ts';
import type { RouteLimits } from './request-limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on public routes. Read it with `callerOf`. */
    identity: Identity | null;
    /** Null where the route declares no rows, or there is no caller. Read it with `scopeOf`. */
    scope: Scope | null;
    /** The account that an admin named, by one of its objects or by `account_id`. Null: the caller's own, or all. */
    operatedAccount: OwningAccount | null;
    /** The workflow a request made, for its log line. */
    workflowId: string | null;
    /** The id of what the request creates, for the audit log. */
    createdObject: string | null;
    /** The object made by the request with an `Idempotency-Key` gets this id. */
    idempotentObject: { id: string; takenOver: boolean } | null;
  }
  interface FastifyContextConfig {
    /** Who may call the route and whose rows it works on. */
    access: Access;
    /** Largest body in bytes. Absent: 16 KiB if the route describes a body, otherwise 1 KiB. */
    bodyBytes?: number;
    /** Absent: `defaultJsonBounds`. */
    jsonBounds?: JsonBounds;
    /** Logged at debug level only: probes ask every few seconds. */
    quiet?: boolean;
    idempotency?: IdempotencyOptions;
  }
  interface FastifyInstance {
    /** Resolves when no request is under way. */
    drained(): Promise<void>;
    /** What `GET /metrics` answers. */
    collectMetrics(): Promise<string>;
    rateLimits: { perKey: RateLimiter; perAddress: RateLimiter; perPublicRoute: RateLimiter };
    routePatterns: RoutePattern[];
    /** Who may call every route, for tests. */
    routeAccess: RouteAccess[];
    /** The limits of every route, for tests and documents. */
    routeLimits: RouteLimits[];
  }
}
