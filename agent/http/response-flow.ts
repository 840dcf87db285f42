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
