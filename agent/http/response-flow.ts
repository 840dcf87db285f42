import type { ServerResponse } from 'node:http';

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
export function drained(res: ServerResponse): Promise<void> {
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
