import { randomBytes } from 'node:crypto';
import { type Id, type IdKind, makeId } from '../domain/ids.ts';

/** A fresh id of that kind. */
export function newId<K extends IdKind>(kind: K): Id<K> {
  return makeId(kind, randomBytes);
}
