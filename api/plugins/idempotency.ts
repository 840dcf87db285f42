import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { z } from 'zod';
import {
  abandonedSeconds,
  claimIdempotencyKey,
  type HeldClaim,
  keepIdempotentReply,
  releaseIdempotencyKey,
  renewIdempotencyClaim,
} from '../../db/accounts/idempotency.ts';
import { isDuplicate } from '../../db/core/constraint-errors.ts';
import { newId } from '../../db/core/new-id.ts';
import type { Orm } from '../../db/orm.ts';
import { AppError } from '../../domain/errors.ts';
import { type Id, type IdKind, isId } from '../../domain/ids.ts';
import { requireCaller } from '../access.ts';

/** A route declares that it accepts `Idempotency-Key` with these options in its `config.idempotency`. */
export interface IdempotencyOptions {
  /**
   * The kind of the created object, whose id is fixed before the work (`createOnce`). `request`: the route creates no
   * object.
   */
  makes: IdKind;
  /** Fields of `data`, or of a reply without an envelope, that are not stored. */
  secrets?: readonly string[];
  /** Adds the secrets that may be sent again to a stored reply. */
  restore?(data: Fields, request: FastifyRequest): Fields | Promise<Fields>;
}

/** The headers of a route that accepts the key. */
export const idempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters')
    .optional()
    .describe(
      'The same caller with the same key and body gets the first reply again for 24 hours, without its secrets',
    ),
});

/**
 * Stores the first successful reply to a key and repeats it. A failed request has created nothing, so its key is free
 * at once. If the process of a request died, a repeated request takes over its key after 15 seconds.
 */
export const idempotency = fp<{ orm: Orm }>(
  async (app, { orm }) => {
    const hashes = new WeakMap<FastifyRequest, string>();
    const holding = new WeakMap<FastifyRequest, RenewedClaim>();
    app.decorateRequest('idempotentObject', null);

    app.addHook('preValidation', async (request) => {
      // The hash is made before validation, because validation fills in defaults that may change with a release.
      if (request.routeOptions.config.idempotency && request.headers['idempotency-key']) {
        hashes.set(request, hashRequest(request));
      }
    });

    app.addHook('preHandler', async (request, reply) => {
      const options = request.routeOptions.config.idempotency;
      const requestHash = hashes.get(request);
      if (!options || !requestHash) return;
      const identity = requireCaller(request);
      const caller = identity.keyId ?? identity.userId;
      const key = request.headers['idempotency-key'] as string;
      const objectId = newId(options.makes);
      const claim = await claimIdempotencyKey(orm.em.fork(), { caller, key, requestHash, objectId });
      switch (claim.kind) {
        case 'reused':
          throw new AppError('idempotency_key_reused', 'This Idempotency-Key was already used with another request');
        case 'in_use':
          throw new AppError('idempotency_key_in_use', 'The first request with this Idempotency-Key is still running');
        case 'replay':
          return replay(request, reply, options, claim);
        case 'run':
          holding.set(
            request,
            new RenewedClaim(orm, { caller, key, claimedAt: claim.claimedAt }, (error) =>
              request.log.warn({ err: error }, 'idempotency key not renewed'),
            ),
          );
          request.idempotentObject = { id: claim.objectId, takenOver: claim.takenOver };
      }
    });

    app.addHook('onSend', async (request, reply, payload) => {
      const claim = holding.get(request);
      if (!claim) return;
      holding.delete(request);
      const held = await claim.end();
      try {
        if (reply.statusCode < 300) {
          const body = await withoutSecrets(JSON.parse(payload as string), request.routeOptions.config.idempotency!);
          await keepIdempotentReply(orm.em.fork(), held, { status: reply.statusCode, body });
        } else {
          await releaseIdempotencyKey(orm.em.fork(), held);
        }
      } catch (error) {
        // The caller gets the reply now. If the caller repeats the request, the repetition takes over the claim.
        request.log.error({ err: error }, 'idempotency key not settled');
      }
    });
  },
  { name: 'idempotency', dependencies: ['access', 'bodies'] },
);

type Fields = Record<string, unknown>;

/** Changes the content of a reply: its `data`, or the whole reply if it has no envelope. */
async function mapData(body: Fields, change: (data: Fields) => Fields | Promise<Fields>): Promise<Fields> {
  if (!('success' in body)) return change(body);
  return body.data ? { ...body, data: await change(body.data as Fields) } : body;
}

function withoutSecrets(body: Fields, { secrets = [] }: IdempotencyOptions): Promise<Fields> {
  return mapData(body, (data) => Object.fromEntries(Object.entries(data).filter(([name]) => !secrets.includes(name))));
}

async function replay(
  request: FastifyRequest,
  reply: FastifyReply,
  options: IdempotencyOptions,
  first: { status: number; body: unknown },
): Promise<FastifyReply> {
  const restored = await mapData(
    first.body as Fields,
    async (data) => (await options.restore?.(data, request)) ?? data,
  );
  return reply
    .code(first.status)
    .header('idempotent-replayed', 'true')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(restored));
}

/** SHA-256 of the request. The order of a body's fields does not matter. */
function hashRequest(request: FastifyRequest): string {
  const body = JSON.stringify(request.body ?? null, (_key, value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash('sha256').update(`${request.method} ${request.url}\n${body}`).digest('hex');
}

/**
 * Creates the object of a POST under an id that is fixed before the work. If a request with an `Idempotency-Key`
 * repeats a request whose process died, it gets the same id and finds the object of the first request.
 * @param work.find returns null when the first request did not create the object
 */
export async function createOnce<Created, Kind extends IdKind>(
  request: FastifyRequest,
  kind: Kind,
  work: { find(id: Id<Kind>): Promise<Created | null>; create(id: Id<Kind>): Promise<Created> },
): Promise<Created> {
  const { makes } = request.routeOptions.config.idempotency ?? {};
  if (makes !== kind) throw new Error(`${request.routeOptions.url} makes ${makes}, not ${kind}`);
  const claimed = request.idempotentObject;
  if (!claimed) {
    const id = newId(kind);
    request.createdObject = id;
    return work.create(id);
  }
  const { id } = claimed;
  if (!isId(kind, id)) throw new Error(`The claim of ${request.routeOptions.url} is not for a ${kind}`);
  request.createdObject = id;
  const found = claimed.takenOver ? await work.find(id) : null;
  if (found) return found;
  try {
    return await work.create(id);
  } catch (error) {
    // The first request was slow, not dead. It created the object after this request had looked for it.
    const created = isDuplicate(error) ? await work.find(id) : null;
    if (created) return created;
    throw error;
  }
}

const renewMs = (abandonedSeconds * 1000) / 4;

/**
 * The claim of a running request. It is renewed until the request ends, so that the claim of a process that died
 * expires soon.
 */
class RenewedClaim {
  readonly #orm: Orm;
  readonly #onError: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #claim: HeldClaim;
  #renewal: Promise<void> = Promise.resolve();

  constructor(orm: Orm, claim: HeldClaim, onError: (error: unknown) => void) {
    this.#orm = orm;
    this.#claim = claim;
    this.#onError = onError;
    this.#timer = setInterval(() => this.#renew(), renewMs);
    this.#timer.unref();
  }

  /** @returns the current claim, which is no longer renewed */
  async end(): Promise<HeldClaim> {
    clearInterval(this.#timer);
    await this.#renewal;
    return this.#claim;
  }

  #renew(): void {
    this.#renewal = this.#renewal
      .then(() => renewIdempotencyClaim(this.#orm.em.fork(), this.#claim))
      .then((claimedAt) => {
        if (claimedAt) this.#claim = { ...this.#claim, claimedAt };
        else clearInterval(this.#timer);
      })
      .catch(this.#onError);
  }
}
