import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Packs the content of a folder. The same files give the same bytes, regardless of the folder's place, the order of its
 * entries, the umask, owners and times (https://reproducible-builds.org/docs/archives/).
 * @param archive `.tar.gz`, `.tgz` or `.tar.zst`
 * @param options.seconds the time of every file, in seconds since 1970
 * @param options.inside a folder of the archive, above all files
 */
export async function packFolder(
  folder: string,
  archive: string,
  options: { seconds: number; inside?: string },
): Promise<void> {
  await pack(folder, archive, [
    `--mtime=@${options.seconds}`,
    ...['--owner=0', '--group=0', '--mode=u+rwX,go+rX,go-w'],
    ...(options.inside ? [`--transform=s,^\\.,${options.inside},S`] : []),
  ]);
}

/**
 * Packs the root file system of a machine with its owners and modes. Times up to `seconds` stay: Python compares those of
 * its sources with its compiled files.
 */
export async function packRootFileSystem(
  folder: string,
  archive: string,
  { seconds }: { seconds: number },
): Promise<void> {
  await pack(folder, archive, [`--mtime=@${seconds}`, '--clamp-mtime']);
}

async function pack(folder: string, archive: string, words: readonly string[]): Promise<void> {
  // A long window finds the code that Go programs share. zstd's output does not depend on the number of its threads.
  const compressor = archive.endsWith('.zst') ? 'zstd -19 --long=27 -T0 --quiet' : 'gzip --best --no-name';
  const format = ['--format=gnu', '--sort=name', '--numeric-owner', '--hard-dereference'];
  const file = ['--file', archive, '--directory', folder, '.'];
  await run('tar', ['--create', `--use-compress-program=${compressor}`, ...format, ...words, ...file], {
    env: { ...process.env, LC_ALL: 'C', TZ: 'UTC', GZIP: '' },
  });
}
