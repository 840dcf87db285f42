import fs from 'node:fs';
import { promisify } from 'node:util';
import { callsMayHang } from '../filesystem/hanging-mounts.ts';

/** Calls that read and write no content. Their results are awaited. */
interface FileCalls {
  open(path: fs.PathLike, flags: string | number, mode?: number): number | Promise<number>;
  close(fd: number): void | Promise<void>;
  fstat(fd: number): fs.Stats | Promise<fs.Stats>;
  fchmod(fd: number, mode: number): void | Promise<void>;
  fchown(fd: number, uid: number, gid: number): void | Promise<void>;
  futimes(fd: number, atime: number | Date, mtime: number | Date): void | Promise<void>;
  lstat(path: fs.PathLike): fs.Stats | Promise<fs.Stats>;
  rename(from: fs.PathLike, to: fs.PathLike): void | Promise<void>;
}

const direct: FileCalls = {
  ...{ open: fs.openSync, close: fs.closeSync, fstat: fs.fstatSync, fchmod: fs.fchmodSync, fchown: fs.fchownSync },
  ...{ futimes: fs.futimesSync, lstat: fs.lstatSync, rename: fs.renameSync },
};

let pooled: FileCalls | undefined;

/** The calls for many small files. Those on the thread pool take several times as long. */
export function fileCalls(): FileCalls {
  if (!callsMayHang()) return direct;
  pooled ??= {
    ...{ open: promisify(fs.open), close: promisify(fs.close), fstat: promisify(fs.fstat) },
    ...{ fchmod: promisify(fs.fchmod), fchown: promisify(fs.fchown), futimes: promisify(fs.futimes) },
    ...{ lstat: promisify(fs.lstat), rename: promisify(fs.rename) },
  };
  return pooled;
}
