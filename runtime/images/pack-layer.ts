import { spawn } from 'node:child_process';
import path from 'node:path';
import type { PackedLayer } from '../driver.ts';
import { writeLayer } from './write-layer.ts';

const packProgram = path.join(import.meta.dirname, 'pack-tree.pl');
/** The maximum number of names in one layer. */
export const maxLayerFiles = 1_000_000;
const refusedExitCode = 3;

/** A tree that a layer cannot hold. The message describes the problem. */
export class UnpackableTreeError extends Error {
  override name = 'UnpackableTreeError';
}

/**
 * Packs a tree of files as the layer of an image.
 * @param tree.changes the tree is the upper layer of an overlay
 * @param tree.disk a file with an ext4 file system that contains the folder
 * @throws {UnpackableTreeError}
 */
export async function packLayer(
  tree: { folder: string; changes: boolean; disk?: string },
  file: string,
  signal?: AbortSignal,
): Promise<PackedLayer> {
  const words = {
    arch: process.arch,
    folder: tree.folder,
    changes: tree.changes ? 1 : 0,
    disk: tree.disk ?? '',
    maxFiles: maxLayerFiles,
  };
  const args = ['--mount', '--propagation', 'private', 'perl', packProgram];
  const child = spawn('unshare', [...args, ...Object.entries(words).map(([key, value]) => `${key}=${value}`)], {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  let reason = '';
  child.stderr.setEncoding('latin1').on('data', (text: string) => {
    reason = (reason + text).slice(-4096);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  ended.catch(() => {});
  const layer = await writeLayer(child.stdout, file, signal);
  const code = await ended;
  if (code === refusedExitCode) throw new UnpackableTreeError(reason.trim());
  if (code !== 0) throw new Error(`a tree could not be packed: ${reason.trim() || code}`);
  return layer;
}
