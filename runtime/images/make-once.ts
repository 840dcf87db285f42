import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { renameDurably } from '../../config/durable-file.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import {
  type ImageConfig,
  imageFolder,
  readUnpackedImage,
  type UnpackedImage,
  writeUnpackedImage,
} from './unpacked-image.ts';

/** The progress of making an image. */
export interface ImageProgress {
  /** What is being done now, in one line for people. */
  message: string;
  /** 0 to 1. */
  fraction: number;
}

/**
 * The image of `digest` from the cache, made there if it is missing. Safe to call from many processes at once: one
 * makes it, the others wait. Half-made images are never visible, and are removed when making fails.
 * @param make fills the draft's tree (`rootfsOf(draft)`) and returns what the image's processes are given
 * @throws errors of `make`
 */
export async function makeImageOnce(options: {
  cacheDir: string;
  digest: string;
  make: (draft: string) => Promise<ImageConfig>;
  /** Another process is making it. */
  onWait?: () => void;
  signal?: AbortSignal;
}): Promise<UnpackedImage> {
  const { digest, make, onWait, signal } = options;
  const folder = imageFolder(options.cacheDir, digest);
  const ready = await readUnpackedImage(folder);
  if (ready) return ready;
  return withFileLock(
    `${folder}.lock`,
    async () => {
      const made = await readUnpackedImage(folder);
      if (made) return made;
      const draft = `${folder}.draft`;
      await removeDraft(draft);
      await mkdir(draft, { recursive: true });
      try {
        await writeUnpackedImage(draft, digest, await make(draft));
        await runCommand('sync', ['-f', draft]);
        await setAsideIfThere(folder);
        await renameDurably(draft, folder);
      } catch (error) {
        await removeDraft(draft);
        throw error;
      }
      return (await readUnpackedImage(folder))!;
    },
    { onWait, signal },
  );
}

/** What wrote there is ending; its last files may come while the folder is emptied. */
const removeDraft = (draft: string) => rm(draft, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });

/** The image cannot be read any more. Sandboxes may run on its tree, so it stays on the disk under another name. */
async function setAsideIfThere(folder: string): Promise<void> {
  if (existsSync(folder)) await rename(folder, `${folder}.damaged-${Date.now()}`);
}
