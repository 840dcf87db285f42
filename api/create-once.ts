import type { FastifyRequest } from 'fastify';
import { isDuplicate } from '../db/constraint-errors.ts';
import { newId } from '../db/new-id.ts';
import type { IdKind } from '../domain/ids.ts';

/**
 * Creates what a POST asks for, under an id that is fixed before the work. A request with an `Idempotency-Key` that
 * repeats one whose process died has the same id, and finds what the first one created.
 * @param work.find null: the first request did not get that far
 */
export async function createOnce<Created>(
  request: FastifyRequest,
  kind: IdKind,
  work: { find(id: string): Promise<Created | null>; create(id: string): Promise<Created> },
): Promise<Created> {
  const { makes } = request.routeOptions.config.idempotency ?? {};
  if (makes !== kind) throw new Error(`${request.routeOptions.url} makes ${makes}, not ${kind}`);
  const claimed = request.idempotentObject;
  if (!claimed) {
    request.createdObject = newId(kind);
    return work.create(request.createdObject);
  }
  request.createdObject = claimed.id;
  const found = claimed.takenOver ? await work.find(claimed.id) : null;
  if (found) return found;
  try {
    return await work.create(claimed.id);
  } catch (error) {
    // The first request was slow, not dead: it created the object after this one looked.
    const created = isDuplicate(error) ? await work.find(claimed.id) : null;
    if (created) return created;
    throw error;
  }
}
