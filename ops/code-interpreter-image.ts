import { ensureCodeInterpreterImage } from './images/code-interpreter/code-interpreter-image.ts';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * `node ops/code-interpreter-image.ts`: has the image of the `code-interpreter` template ready in the cache, and
 * prints the folder of its tree.
 */
let last = '';
const image = await ensureCodeInterpreterImage({
  cacheDir: cacheDir(),
  reference: process.env.PLATFORM_BASE_IMAGE || undefined,
  registryInsecureHttp: ['1', 'true'].includes(process.env.PLATFORM_REGISTRY_INSECURE_HTTP ?? ''),
  onProgress: ({ message }) => {
    if (message !== last) console.error(`    ${message}`);
    last = message;
  },
});
console.log(image.rootfs);
