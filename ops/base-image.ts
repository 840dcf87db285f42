import { ensureBaseImage } from '../runtime/images/base-image.ts';
import { baseRecipeDigest } from '../runtime/images/base-recipe.ts';
import { imageFolder } from '../runtime/images/image-store.ts';
import { readUnpackedImage } from '../runtime/images/unpacked-image.ts';
import { cacheDir as cacheDirOf } from './toolchain/locations.mjs';

/**
 * `node ops/base-image.ts [--check]`: has the image of the `base` template ready in the cache, pulled or made from
 * Debian packages, and says what it does. With `--check` it only looks: status 0 when it is there.
 */
const cacheDir = cacheDirOf();
const reference = process.env.PLATFORM_BASE_IMAGE || undefined;
if (process.argv.includes('--check')) {
  // Whether a tag has moved only its registry knows, so one that is named is always asked for.
  const isThere = !reference && (await readUnpackedImage(imageFolder(cacheDir, baseRecipeDigest())));
  process.exit(isThere ? 0 : 1);
}
let last = '';
await ensureBaseImage({
  cacheDir,
  ...(reference && { reference }),
  registryInsecureHttp: ['1', 'true'].includes(process.env.PLATFORM_REGISTRY_INSECURE_HTTP ?? ''),
  onProgress: ({ message }) => {
    if (message !== last) console.log(`    ${message}`);
    last = message;
  },
});
