import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { renameDurably } from '../../platform/config/durable-file.ts';
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
  /** The current step, in one line for people. */
  message: string;
  /** 0 to 1. */
  fraction: number;
}

/**
 * The image of `digest` from the cache. Makes it there if it is missing. Many processes may call this at the same time:
 * one makes the image, and the others wait. Half-made images are never visible, and are removed after a failure.
 * @param make fills the draft's tree (`rootfsOf(draft)`) and returns the configuration of the image's processes
 * @throws errors of `make`
 */
export async function makeImageOnce(options: {
  cacheDir: string;
  digest: string;
  make: (draft: string) => Promise<ImageConfig>;
  /** Called when another process is making the image. */
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

/** The processes that wrote there are ending, and may still write files while the folder is emptied. */
const removeDraft = (draft: string) => rm(draft, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });

/** Moves an unreadable image aside. Sandboxes may run on its tree, so it stays on the disk under another name. */
async function setAsideIfThere(folder: string): Promise<void> {
  if (existsSync(folder)) await rename(folder, `${folder}.damaged-${Date.now()}`);
}
