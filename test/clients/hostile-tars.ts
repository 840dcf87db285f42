import fs from 'node:fs';
import path from 'node:path';
import { setChecksum, type TarEntry, tarOf } from '../support/tar.ts';

/** The paths below a folder, in order. Links are not followed. */
export function pathsBelow(folder: string, name = ''): string[] {
  return fs
    .readdirSync(path.join(folder, name), { withFileTypes: true })
    .flatMap((entry) => {
      const below = path.join(name, entry.name);
      return entry.isDirectory() ? [below, ...pathsBelow(folder, below)] : [below];
    })
    .sort();
}

const good = { name: 'good', content: 'good' };
const file = (name: string, more: Partial<TarEntry> = {}): TarEntry => ({ name, content: 'hostile', ...more });
const link = (name: string, linkname: string): TarEntry => ({ name, type: 'symlink', linkname });

/**
 * What root in a sandbox may send for a folder. The client unpacks it into `target`, beside which is `../beside` with the
 * file `precious`. `code` is that of the client's error; null for an error of the local files. `left` is what is then in the target.
 */
export const hostileTars: { what: string; code?: string | null; left: string[]; tar(): Promise<Buffer> }[] = [
  ...['../escaped', 'a/../../escaped', '/tmp/escaped', '..', 'a/..'].map((name) => ({
    ...{ what: `the name ${name}`, code: 'bad_reply', left: ['good'] },
    tar: () => tarOf(good, file(name)),
  })),
  {
    ...{ what: 'a name with NUL', code: 'bad_reply', left: ['good'] },
    tar: () => tarOf(good, file('x', { pax: { path: 'a\0b' } })),
  },
  {
    ...{ what: 'a file below a link that leads out', code: 'copy_failed', left: ['good', 'out'] },
    tar: () => tarOf(good, link('out', '../beside'), file('out/precious')),
  },
  {
    ...{ what: 'a folder in place of a link that leads out', code: 'copy_failed', left: ['good', 'out'] },
    tar: () => tarOf(good, link('out', '../beside'), { name: 'out', type: 'directory' }, file('out/precious')),
  },
  {
    ...{ what: 'a folder that becomes a link', code: null, left: ['folder', 'folder/x', 'good'] },
    tar: () => tarOf(good, file('folder/x'), link('folder', '../beside'), file('folder/precious')),
  },
  {
    ...{ what: 'a file in place of a link to a file outside', left: ['file', 'good'] },
    tar: () => tarOf(good, link('file', '../beside/precious'), file('file')),
  },
  {
    ...{ what: 'links in chains', code: 'copy_failed', left: ['a', 'b', 'good'] },
    tar: () => tarOf(good, link('a', 'b'), link('b', '..'), file('a/beside/precious')),
  },
  {
    ...{ what: 'hard links to outside, devices and pipes', left: ['good', 'hard'] },
    tar: () =>
      tarOf(
        { name: 'hard', type: 'link', linkname: '../beside/precious' },
        { name: 'pipe', type: 'fifo' },
        { name: 'null', type: 'character-device', devmajor: 1, devminor: 3 },
        { name: 'disk', type: 'block-device', devmajor: 7, devminor: 0 },
        file('hard'),
        good,
      ),
  },
  {
    ...{ what: 'the same name twice', left: ['good'] },
    tar: () => tarOf(file('good'), good),
  },
  {
    ...{ what: 'a link to no name', code: 'bad_reply', left: ['good'] },
    tar: () => tarOf(good, { ...link('x', 'x'), pax: { linkpath: 'a\0b' } }),
  },
  {
    ...{ what: 'an extended header that is longer than memory', code: 'bad_reply', left: ['good'] },
    tar: async () => {
      const tar = await tarOf(good, file('x', { pax: { comment: 'x' } }));
      return Buffer.concat([withSize(tar, 1024, 0o77777777777), Buffer.alloc(16_000_000, 'x')]);
    },
  },
  {
    ...{ what: 'a size below zero', code: 'bad_reply', left: ['good'] },
    tar: async () => withSize(await tarOf(good, file('x')), 1024, -512),
  },
  {
    ...{ what: 'a size that is no number', code: 'bad_reply', left: ['good'] },
    tar: () => tarOf(good, file('x', { pax: { size: 'nan' } })),
  },
  {
    ...{ what: 'a file that ends early', code: 'bad_reply', left: ['good'] },
    tar: async () => (await tarOf(good, file('cut', { content: Buffer.alloc(100_000) }))).subarray(0, 51_200),
  },
  {
    ...{ what: 'no end', code: 'bad_reply', left: ['good'] },
    tar: async () => (await tarOf(good)).subarray(0, 1024),
  },
  { what: 'nothing', code: 'bad_reply', left: [], tar: async () => Buffer.alloc(0) },
  { what: 'no tar', code: 'bad_reply', left: [], tar: async () => Buffer.alloc(4096, 'no tar') },
  {
    ...{ what: 'an error of the agent with control characters', code: 'copy_failed', left: ['good'] },
    tar: () => tarOf(good, { name: './', type: 'directory', pax: { 'SANDBOX.error': '\u001b[2J\u202e' } }),
  },
];

/** Sets the size in the header at an offset, and its checksum. */
function withSize(tar: Buffer, at: number, size: number): Buffer {
  const changed = Buffer.from(tar);
  const header = changed.subarray(at, at + 512);
  if (size >= 0) header.write(`${size.toString(8).padStart(11, '0')} `, 124, 'latin1');
  else {
    header.fill(0xff, 124, 136);
    header.writeInt32BE(size, 132);
  }
  setChecksum(changed, at);
  return changed;
}
