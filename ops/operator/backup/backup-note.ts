import path from 'node:path';
import { z } from 'zod';
import { readDocument } from '../../../config/readable-document.ts';

/** `backup.json`, which a backup has once it is whole. */
export const backupNote = z.object({
  version: z.literal(1),
  createdAt: z.string(),
  hostId: z.string(),
  /** An operator had drained the host before. Otherwise the backup did, and the restore ends that. */
  wasDraining: z.boolean(),
  /** The position in Postgres's log at which both databases were copied. */
  lsn: z.string(),
  /** Sandboxes with a disk. */
  sandboxes: z.array(z.string()),
  /** Settings that the platform of the backup had and that no file of it has. */
  settings: z.array(z.string()),
});
export type BackupNote = z.infer<typeof backupNote>;

export const noteFile = 'backup.json';

/** Null: the folder has no whole backup. @throws {DamagedFileError} */
export function readBackupNote(folder: string): BackupNote | null {
  return readDocument(path.join(folder, noteFile), backupNote);
}
