import { type BaseImageOptions, cachedBaseImage, ensureBaseImage } from '../../runtime/images/base-image.ts';
import { interpreterRecipes } from '../../runtime/images/builtin-images.ts';
import { cachedCodeInterpreterImage, ensureCodeInterpreterImage } from '../../runtime/images/code-interpreter-image.ts';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * `node ops/setup/builtin-image.ts base|code-interpreter|code-interpreter-all [--check]`: pulls or makes the image of
 * that template in the cache, and reports its progress. With `--check` it only checks whether the image is there:
 * status 0 if it is.
 */
const images = new Map([['base', { cached: cachedBaseImage, ensure: ensureBaseImage }]]);
for (const [image, recipeDir] of Object.entries(interpreterRecipes)) {
  images.set(image.replace('builtin:', ''), {
    cached: (options: BaseImageOptions) => cachedCodeInterpreterImage({ ...options, recipeDir }),
    ensure: (options: BaseImageOptions) => ensureCodeInterpreterImage({ ...options, recipeDir }),
  });
}
const [name = '', check] = process.argv.slice(2);
const image = images.get(name);
if (!image) {
  console.error(`There is no image ${name}; there are ${[...images.keys()].join(', ')}`);
  process.exit(2);
}
let last = '';
const options: BaseImageOptions = {
  cacheDir: cacheDir(),
  ...(process.env.PLATFORM_BASE_IMAGE && { reference: process.env.PLATFORM_BASE_IMAGE }),
  registryInsecureHttp: ['1', 'true'].includes(process.env.PLATFORM_REGISTRY_INSECURE_HTTP ?? ''),
  onProgress: ({ message }) => {
    if (message !== last) console.log(message);
    last = message;
  },
};
if (check === '--check') process.exit((await image.cached(options)) ? 0 : 1);
await image.ensure(options);
