import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** A package of npm in a registry, with its digest as registries write it: `sha512-<base64>`. */
export interface NpmVersion {
  version: string;
  integrity: string;
}

/** The additions of a code interpreter's image to the base image, as read from its folder. */
export interface InterpreterRecipe {
  /** The name of the template. */
  name: string;
  /**
   * The Debian packages of the file `packages`. If there are any, the image is made from packages and not from the base
   * image.
   */
  packages: string[];
  /** The file `requirements.txt`: Python packages, in the format of pip. */
  requirements: string;
  /** The file `finish.sh`. It runs in the tree after the packages are installed. */
  finish: string;
  /** The file `npm-version`: both, with a space between them. */
  npm: NpmVersion;
}

/**
 * Reads the recipe in a folder. A missing file is taken from the folder in the file `extends`, and the requirements and
 * finish of the recipe come after those of that folder.
 */
export async function readInterpreterRecipe(folder: string): Promise<InterpreterRecipe> {
  const text = async (name: string) => {
    const file = path.join(folder, name);
    return existsSync(file) ? await readFile(file, 'utf8') : '';
  };
  const words = async (name: string) => (await text(name)).replaceAll(/#.*$/gm, '').split(/\s+/).filter(Boolean);
  const [extended] = await words('extends');
  const below = extended ? await readInterpreterRecipe(path.join(folder, '..', extended)) : null;
  const [version, integrity] = await words('npm-version');
  const npm = version && integrity ? { version, integrity } : below?.npm;
  if (!npm) throw new Error(`the recipe in ${folder} names no version of npm with its digest`);
  return {
    name: path.basename(folder),
    packages: [...(below?.packages ?? []), ...(await words('packages'))],
    requirements: (below?.requirements ?? '') + (await text('requirements.txt')),
    finish: (below?.finish ?? '') + (await text('finish.sh')),
    npm,
  };
}

/** A digest of the image's inputs. Any change gives it a new digest, so hosts make it again. */
export function interpreterDigest(baseDigest: string, recipe: InterpreterRecipe, node: string): string {
  const inputs = { base: baseDigest, ...recipe, node };
  return `sha256:${createHash('sha256').update(JSON.stringify(inputs)).digest('hex')}`;
}
