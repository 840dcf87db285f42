import path from 'node:path';
import { type BaseImageOptions, cachedBaseImage, ensureBaseImage } from '../../runtime/images/base-image.ts';
import { cachedCodeInterpreterImage, ensureCodeInterpreterImage } from '../../runtime/images/code-interpreter-image.ts';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * `node ops/setup/builtin-image.ts base|code-interpreter [--check]`: brings the image of that template into the cache,
 * pulled or made from packages, and reports its progress. With `--check` it only looks: status 0 when it is there.
 */
const recipeDir = path.resolve(import.meta.dirname, '../../runtime/images/code-interpreter');
const images = {
  base: { cached: cachedBaseImage, ensure: ensureBaseImage },
  'code-interpreter': {
    cached: (options: BaseImageOptions) => cachedCodeInterpreterImage({ ...options, recipeDir }),
    ensure: (options: BaseImageOptions) => ensureCodeInterpreterImage({ ...options, recipeDir }),
  },
};
const [name = '', check] = process.argv.slice(2);
const image = images[name as keyof typeof images];
if (!image) {
  console.error(`There is no image ${name}; there are ${Object.keys(images).join(', ')}`);
  process.exit(2);
}
let last = '';
const options: BaseImageOptions = {
  cacheDir: cacheDir(),
  ...(process.env.PLATFORM_BASE_IMAGE && { reference: process.env.PLATFORM_BASE_IMAGE }),
  registryInsecureHttp: ['1', 'true'].includes(process.env.PLATFORM_REGISTRY_INSECURE_HTTP ?? ''),
  onProgress: ({ message }) => {
    if (message !== last) console.log(`    ${message}`);
    last = message;
  },
};
if (check === '--check') process.exit((await image.cached(options)) ? 0 : 1);
await image.ensure(options);
