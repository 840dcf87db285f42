import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ListPosition } from '../db/core/page.ts';

/** Where a page of a list begins: after a row, and with the number of rows that the pages before have shown. */
export interface PageStart {
  after: ListPosition;
  offset: number;
}

const signatureBytes = 16;

/**
 * Cursors of lists. A cursor has the place of the last row that its caller saw. It is signed together with the list, so
 * that an altered one, or one of another list, is refused before its values reach the database.
 */
export class ListCursors {
  readonly #keys: () => Buffer[];

  /** @param keys the first signs, all verify */
  constructor(keys: () => Buffer[]) {
    this.#keys = keys;
  }

  /** @param list everything that determines which rows the list has, and their order */
  make(list: string, { after, offset }: PageStart): string {
    const place = Buffer.from(JSON.stringify([offset, after.value, ...after.key]));
    return Buffer.concat([sign(this.#keys()[0]!, list, place), place]).toString('base64url');
  }

  /** Null: it is not a cursor of this list. */
  open(list: string, cursor: string): PageStart | null {
    const bytes = Buffer.from(cursor, 'base64url');
    // Decoding skips characters that are not base64url.
    if (bytes.toString('base64url') !== cursor) return null;
    const [signature, place] = [bytes.subarray(0, signatureBytes), bytes.subarray(signatureBytes)];
    const isSignedWith = (key: Buffer) =>
      signature.length === signatureBytes && timingSafeEqual(signature, sign(key, list, place));
    if (!this.#keys().some(isSignedWith)) return null;
    const [offset, value, ...key] = JSON.parse(place.toString()) as [number, string | null, ...string[]];
    return { after: { value, key }, offset };
  }
}

function sign(key: Buffer, list: string, place: Buffer): Buffer {
  return createHmac('sha256', key).update(`${list}\n`).update(place).digest().subarray(0, signatureBytes);
}
