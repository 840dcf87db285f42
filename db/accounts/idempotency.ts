import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from '../core/query.ts';

/** The result of a claim for a request with an `Idempotency-Key`. */
export type IdempotencyClaim =
  /**
   * Run the request. `objectId` is the id for its object. `takenOver`: an earlier try may already have made the object.
   */
  | { kind: 'run'; claimedAt: string; objectId: string; takenOver: boolean }
  /** Send the stored reply again. */
  | { kind: 'replay'; status: number; body: unknown }
  /** The key was used with another request. */
  | { kind: 'reused' }
  /** The first request is still running. */
  | { kind: 'in_use' };

/** How long a first reply is repeated, and how long a request without renewal keeps its claim. */
export const keptHours = 24;
export const abandonedSeconds = 15;

/**
 * Claims a key for a request. It inserts first, so that only one of several concurrent requests runs. If a claim is not
 * renewed because its process died, the same request takes it over and keeps its `objectId`.
 */
export async function claimIdempotencyKey(
  em: EntityManager,
  claim: { caller: string; key: string; requestHash: string; objectId: string },
): Promise<IdempotencyClaim> {
  const expired = `k.created_at < now() - interval '${keptHours} hours'`;
  const abandoned = `k.reply_status is null and k.created_at < now() - interval '${abandonedSeconds} seconds'`;
  const [claimed] = await query<{ claimed_at: string; object_id: string | null }>(
    em,
    `insert into idempotency_keys as k (caller, key, request_hash, object_id, created_at) values (?, ?, ?, ?, now())
     on conflict (caller, key) do update
        set request_hash = excluded.request_hash, reply_status = null, reply_body = null, created_at = now(),
            object_id = case when ${expired} then excluded.object_id else k.object_id end
      where ${expired} or (${abandoned} and k.request_hash = excluded.request_hash)
     returning created_at::text as claimed_at, object_id`,
    [claim.caller, claim.key, claim.requestHash, claim.objectId],
  );
  if (claimed) {
    const objectId = claimed.object_id ?? claim.objectId;
    return { kind: 'run', claimedAt: claimed.claimed_at, objectId, takenOver: objectId !== claim.objectId };
  }
  const [first] = await query<{ request_hash: string; reply_status: number | null; reply_body: unknown }>(
    em,
    'select request_hash, reply_status, reply_body from idempotency_keys where caller = ? and key = ?',
    [claim.caller, claim.key],
  );
  // The first request has just failed and released its key.
  if (!first) return { kind: 'in_use' };
  if (first.request_hash !== claim.requestHash) return { kind: 'reused' };
  if (first.reply_status === null) return { kind: 'in_use' };
  return { kind: 'replay', status: first.reply_status, body: readBody(first.reply_body) };
}

export interface HeldClaim {
  caller: string;
  key: string;
  claimedAt: string;
}

/**
 * Renews the claim of a running request.
 * @returns the new time of the claim; null when it was taken over meanwhile
 */
export async function renewIdempotencyClaim(em: EntityManager, held: HeldClaim): Promise<string | null> {
  const [renewed] = await query<{ claimed_at: string }>(
    em,
    `update idempotency_keys set created_at = now()
      where caller = ? and key = ? and created_at = ?::timestamptz and reply_status is null
     returning created_at::text as claimed_at`,
    [held.caller, held.key, held.claimedAt],
  );
  return renewed?.claimed_at ?? null;
}

/** Stores the first reply, unless the claim was taken over meanwhile. */
export async function keepIdempotentReply(
  em: EntityManager,
  held: HeldClaim,
  reply: { status: number; body: unknown },
): Promise<void> {
  await query(
    em,
    `update idempotency_keys set reply_status = ?, reply_body = ?::jsonb
      where caller = ? and key = ? and created_at = ?::timestamptz`,
    [reply.status, storedBody(reply.body), held.caller, held.key, held.claimedAt],
  );
}

/** `jsonb` cannot contain NUL, which a command may print. A body with NUL is stored as a text of JSON. */
function storedBody(body: unknown): string {
  const text = JSON.stringify(body);
  return text.includes('\\u0000') ? JSON.stringify(text) : text;
}

function readBody(stored: unknown): unknown {
  return typeof stored === 'string' ? JSON.parse(stored) : stored;
}

/** Releases the key: the request has created nothing, so it may be sent again, even changed. */
export async function releaseIdempotencyKey(em: EntityManager, held: HeldClaim): Promise<void> {
  await query(
    em,
    `delete from idempotency_keys
      where caller = ? and key = ? and created_at = ?::timestamptz and reply_status is null`,
    [held.caller, held.key, held.claimedAt],
  );
}
