import type { Identity } from '../../db/repositories/identities.ts';
import type { IdempotencyOptions } from './idempotency.ts';
import type { RateLimiter } from './rate-limits.ts';

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
    /** Needs no key. */
    public?: boolean;
    /** Whoever brings `?token=` needs no key; the route judges the token. */
    tokenInQuery?: boolean;
    /** Logged at debug level only: probes ask every few seconds. */
    quiet?: boolean;
    idempotency?: IdempotencyOptions;
  }
  interface FastifyInstance {
    /** Resolves when no request is under way. */
    drained(): Promise<void>;
    rateLimits: { perKey: RateLimiter; perAddress: RateLimiter };
  }
}
