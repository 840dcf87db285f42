import type { FastifyRequest } from 'fastify';
import { isDuplicate } from '../db/core/constraint-errors.ts';
import { newId } from '../db/core/new-id.ts';
import { type Id, type IdKind, isId } from '../domain/ids.ts';

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
