import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { writeS3fsImage } from './s3fs-image.ts';

/**
 * `node runtime/kubernetes/mounts/write-s3fs-image.ts FOLDER` writes the root folder of the image of mount pods. The
 * target `s3fs` of the Dockerfile makes the image from it.
 */
const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('Usage: node runtime/kubernetes/mounts/write-s3fs-image.ts FOLDER');
  process.exit(2);
}
const cacheDir = await mkdtemp(path.join(os.tmpdir(), 's3fs-image-'));
try {
  await writeS3fsImage(cacheDir, folder);
} finally {
  await rm(cacheDir, { recursive: true });
}
