import path from 'node:path';
import { z } from 'zod';
import { readDocument } from '../../../platform/config/readable-document.ts';

/** `backup.json`. Only a complete backup has this file. */
export const backupNote = z.object({
  version: z.literal(1),
  createdAt: z.string(),
  hostId: z.string(),
  /** The position in Postgres's log of the copied databases. */
  lsn: z.string(),
  /** Ids of the sandboxes with a disk. */
  sandboxes: z.array(z.string()),
  /** Names of the platform's settings that are in no file of the backup. */
  settings: z.array(z.string()),
});
export type BackupNote = z.infer<typeof backupNote>;

export const noteFile = 'backup.json';

/** Null: the folder contains no complete backup. @throws {DamagedFileError} */
export function readBackupNote(folder: string): BackupNote | null {
  return readDocument(path.join(folder, noteFile), backupNote);
}
