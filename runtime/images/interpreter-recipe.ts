import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** What the image of a code interpreter has beyond the base image, as its folder says. */
export interface InterpreterRecipe {
  /** Of the template. */
  name: string;
  /** Debian packages of `packages`; with some, the image is made anew from packages and not from the base image. */
  packages: string[];
  /** `requirements.txt`: Python packages, in the format of pip. */
  requirements: string;
  /** `finish.sh`, run in the tree when its packages are there. */
  finish: string;
  /** `npm-version`. */
  npm: string;
}

/**
 * Reads the recipe in a folder. A file that is missing there is taken from the folder that `extends` names, and its
 * requirements and finish come after those of that folder.
 */
export async function readInterpreterRecipe(folder: string): Promise<InterpreterRecipe> {
  const text = async (name: string) => {
    const file = path.join(folder, name);
    return existsSync(file) ? await readFile(file, 'utf8') : '';
  };
  const words = async (name: string) => (await text(name)).replaceAll(/#.*$/gm, '').split(/\s+/).filter(Boolean);
  const [extended] = await words('extends');
  const below = extended ? await readInterpreterRecipe(path.join(folder, '..', extended)) : null;
  const npm = (await text('npm-version')).trim() || below?.npm;
  if (!npm) throw new Error(`the recipe in ${folder} names no version of npm`);
  return {
    name: path.basename(folder),
    packages: [...(below?.packages ?? []), ...(await words('packages'))],
    requirements: (below?.requirements ?? '') + (await text('requirements.txt')),
    finish: (below?.finish ?? '') + (await text('finish.sh')),
    npm,
  };
}

/** Names the image by what it is made from: any change gives it a new digest, so hosts make it again. */
export function interpreterDigest(baseDigest: string, recipe: InterpreterRecipe, node: string): string {
  const inputs = { base: baseDigest, ...recipe, node };
  return `sha256:${createHash('sha256').update(JSON.stringify(inputs)).digest('hex')}`;
}
