import type { Identity } from '../../db/repositories/identities.ts';
import type { JsonBounds } from '../../domain/json-bounds.ts';
import type { RoutePattern } from './errors.ts';
import type { IdempotencyOptions } from './idempotency.ts';
import type { RateLimiter } from './rate-limits.ts';
import type { PublicRoute, RouteLimits } from './request-limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on public routes. */
    identity: Identity | null;
    /** The workflow a request made, for its log line. */
    workflowId: string | null;
    /** What the request with an `Idempotency-Key` makes gets this id. */
    idempotentObject: { id: string; takenOver: boolean } | null;
  }
  interface FastifyContextConfig {
    /** Needs no key, and states its own limits. */
    public?: PublicRoute;
    /** Largest body in bytes. Left out: 16 KiB where the route describes a body, else 1 KiB. */
    bodyBytes?: number;
    /** Left out: `defaultJsonBounds`. */
    jsonBounds?: JsonBounds;
    /** A request with `?token=` needs no key; the route checks the token. */
    tokenInQuery?: boolean;
    /** Logged at debug level only: probes ask every few seconds. */
    quiet?: boolean;
    idempotency?: IdempotencyOptions;
  }
  interface FastifyInstance {
    /** Resolves when no request is under way. */
    drained(): Promise<void>;
    rateLimits: { perKey: RateLimiter; perAddress: RateLimiter; perPublicRoute: RateLimiter };
    routePatterns: RoutePattern[];
    /** The limits of every route, for tests and documents. */
    routeLimits: RouteLimits[];
  }
}
