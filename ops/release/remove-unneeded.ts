import path from 'node:path';
import { removeUnneeded } from './contents.ts';

/** `node ops/release/remove-unneeded.ts`: removes from this folder what a running platform does not load. */
removeUnneeded(path.resolve(import.meta.dirname, '../..'));
