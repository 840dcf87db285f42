import { hkdfSync, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { releaseBallastIfFull } from '../../../runtime/disk/ballast.ts';
import { isOutOfSpace } from '../../../runtime/disk/out-of-space.ts';
import { LockHeldError, lockFile } from '../../setup/file-lock.mjs';
import { ProcessRecord } from '../embedded/process-record.ts';

/** Another copy runs on this data folder. */
export class DataFolderInUseError extends Error {
  override name = 'DataFolderInUseError';
}

/** Follows the pid of a supervisor that is stopping. */
const stopping = 'stopping';

/** The folder with all data of one copy of the platform. One supervisor at a time holds it. */
export interface DataFolder {
  dir: string;
  logDir: string;
  record: ProcessRecord;
  /** Base64 of 32 bytes. */
  secretKey: string;
  /** From now on another supervisor waits for the folder, and is not refused. */
  markStopping(): void;
  /** Releases the folder for another supervisor. */
  release(): Promise<void>;
}

/**
 * Makes the folder if it is missing, and takes its lock. It is a kernel lock, so it is released as soon as its holder
 * has ended, even by a SIGKILL.
 * @param secretKey the operator's own key; without one, a key is made and stored in the folder
 * @throws {DataFolderInUseError}
 */
export async function openDataFolder(dir: string, secretKey?: string): Promise<DataFolder> {
  fs.mkdirSync(dir, { recursive: true });
  // Other users may traverse the folder (Postgres runs as its own user) but not list it.
  fs.chmodSync(dir, 0o711);
  const pidFile = path.join(dir, 'platform.pid');
  const lock = await takeLock(dir, pidFile);
  // All later writes are in this folder. A start on a full disk uses the space of the ballast.
  releaseBallastIfFull(path.join(dir, 'oci'));
  writePid(pidFile, `${process.pid}\n`);
  const logDir = path.join(dir, 'logs');
  fs.mkdirSync(logDir, { recursive: true, mode: 0o700 });
  return {
    dir,
    logDir,
    record: new ProcessRecord(path.join(dir, 'processes.json')),
    secretKey: secretKey ?? loadOrMakeSecretKey(path.join(dir, 'secret-key')),
    markStopping() {
      writePid(pidFile, `${process.pid} ${stopping}\n`);
    },
    async release() {
      fs.rmSync(pidFile, { force: true });
      await lock.release();
    },
  };
}

async function takeLock(dir: string, pidFile: string): Promise<{ release(): Promise<void> }> {
  const file = path.join(dir, 'platform.lock');
  try {
    return await lockFile(file, { wait: false });
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    const [pid, state] = fs.existsSync(pidFile) ? fs.readFileSync(pidFile, 'utf8').trim().split(' ') : ['unknown'];
    if (state === stopping) return lockFile(file, { wait: true });
    throw new DataFolderInUseError(
      `A platform already runs on ${dir} (pid ${pid}). Stop it first, or name another folder in PLATFORM_DATA_DIR.`,
    );
  }
}

/** For people, and for a start during a stop. A full disk prevents neither the start nor the stop. */
function writePid(file: string, text: string): void {
  try {
    fs.writeFileSync(file, text);
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
  }
}

function loadOrMakeSecretKey(file: string): string {
  if (!fs.existsSync(file)) writeFileDurablySync(file, `${randomBytes(32).toString('base64')}\n`);
  const key = fs.readFileSync(file, 'utf8').trim();
  if (Buffer.from(key, 'base64').length === 32) return key;
  // The key is never made again for data that was encrypted with the old one.
  throw new Error(`${file} is damaged: it must hold the 32 bytes, in base64, that this data folder was made with`);
}

/** A password of an embedded part. It is derived, so it needs no file of its own. */
export function derivePassword(secretKey: string, purpose: string): string {
  const master = Buffer.from(secretKey, 'base64');
  return Buffer.from(hkdfSync('sha256', master, 'sandbox-platform-embedded', purpose, 24)).toString('hex');
}
