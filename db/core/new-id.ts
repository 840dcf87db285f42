import { randomBytes } from 'node:crypto';
import { type Id, type IdKind, makeId } from '../../domain/ids.ts';

/** A new id of this kind. */
export function newId<K extends IdKind>(kind: K): Id<K> {
  return makeId(kind, randomBytes);
}
