import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';

/** The longest message that is written as one piece. */
const smallBytes = 16 * 1024;
const chunkOverheadBytes = 8;
const lineEnd = Buffer.from('\r\n');

/**
 * Writes a small message of a reply whose head is written. `res.write` would give a chunk to the kernel as a list of
 * four pieces, one turn later. This writes the same bytes at once as one piece, which takes a fraction of the time.
 * @returns false: the message is not small, or this reply cannot be written so; nothing was written
 */
export function writeSmall(res: ServerResponse, ...pieces: Buffer[]): boolean {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  // Without a socket the reply waits for an earlier one of its connection.
  if (length > smallBytes || !res.chunkedEncoding || !res.socket) return false;
  const chunk = Buffer.allocUnsafe(length + chunkOverheadBytes);
  let at = chunk.write(`${length.toString(16)}\r\n`, 0, 'latin1');
  for (const piece of pieces) at += piece.copy(chunk, at);
  at += lineEnd.copy(chunk, at);
  res.socket.write(chunk.subarray(0, at));
  return true;
}

/**
 * Writes pieces at once. Resolves when the kernel has taken all of them, or the client is gone. Then they may be
 * reused.
 */
export function writeThrough(res: ServerResponse, ...pieces: Buffer[]): Promise<void> {
  if (res.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      res.off('close', done);
      resolve();
    };
    res.on('close', done);
    const last = pieces.length - 1;
    if (last > 0) res.cork();
    for (let i = 0; i < last; i++) res.write(pieces[i]);
    res.write(pieces[last], done);
    if (last > 0) res.uncork();
  });
}

/** Longer than a reply takes that needs no waiting. A head alone costs a packet. */
const headAloneMs = 20;

/** Sends the head of a stream's reply soon, also if its first message takes long. `begin` writes the head. */
export function sendHeadSoon(res: ServerResponse, begin: () => void): void {
  const timer = setTimeout(() => {
    begin();
    if (!res.writableEnded) res.flushHeaders();
  }, headAloneMs);
  res.once('close', () => clearTimeout(timer));
}

/**
 * Resolves when the client has taken most of the written data, or is gone. Resolves at once if the client is not
 * behind.
 */
export function drained(res: ServerResponse | Writable): Promise<void> {
  if (res.destroyed || !res.writableNeedDrain) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      res.off('drain', done);
      res.off('close', done);
      resolve();
    };
    res.on('drain', done);
    res.on('close', done);
  });
}
