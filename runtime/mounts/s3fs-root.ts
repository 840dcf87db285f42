import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { certificateStores } from '../../platform/config/machine-certificates.mjs';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { computeIdentity, findLibraries } from '../sandbox-agent/runtime-folder.ts';

/** Perl starts s3fs, and runs the replacement of `fusermount`. */
const programs = ['s3fs', 'perl'];
const fusermountFile = path.join(import.meta.dirname, 'fusermount.pl');
/** Mount points in the container of s3fs. */
const folders = ['bucket', 'buffers', 'dev', 'etc/ssl/certs', 'proc', 'root', 'tmp'];
/** s3fs reads the trusted certificates here. The driver mounts them, and the image of mount pods contains them. */
export const certificatesFile = '/etc/ssl/certs/ca-certificates.crt';
/** Where the TLS libraries of the distributions look for them. */
const certificatePlaces = [
  ...certificateStores,
  '/etc/pki/tls/cert.pem',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
];
/** Words of its command line that depend on its version. Both programs that start s3fs read them. */
const optionsFile = 'etc/s3fs-options';
/** Another number makes the folder anew from the same programs. */
const layout = 3;
const accounts = { passwd: 'root:x:0:0::/root:/bin/false\n', group: 'root:x:0:\n' };

/** Returns the same folder for every mount of this process while the folder exists. */
export function s3fsRootIn(cacheDir: string): () => Promise<string> {
  let known: string | null = null;
  return async () => {
    if (known === null || !existsSync(known)) known = await ensureS3fsRoot(cacheDir);
    return known;
  };
}

/**
 * The root folder of the host's s3fs in its container: s3fs, the libraries that it loads, and no file with information
 * about this machine. Made once, and again when one of the files has changed.
 * @throws {Error} when s3fs is missing
 */
async function ensureS3fsRoot(cacheDir: string): Promise<string> {
  const files = await Promise.all(programs.map(findProgram));
  const libraries = await findLibraries(files);
  const key = `${layout}-${computeIdentity([...files, ...libraries, fusermountFile])}`;
  const folder = path.join(cacheDir, 'runtime', `s3fs-${key}`);
  if (existsSync(folder)) return folder;
  return withFileLock(path.join(cacheDir, 'runtime', 's3fs.lock'), async () => {
    if (existsSync(folder)) return folder;
    const draft = `${folder}.draft`;
    await rm(draft, { recursive: true, force: true });
    for (const each of folders) await mkdir(path.join(draft, each), { recursive: true });
    for (const [index, name] of programs.entries()) {
      await mkdir(path.join(draft, 'usr/bin'), { recursive: true });
      await copyFile(files[index]!, path.join(draft, 'usr/bin', name));
    }
    await copyFile(fusermountFile, path.join(draft, 'usr/bin/fusermount'));
    await chmod(path.join(draft, 'usr/bin/fusermount'), 0o755);
    for (const library of libraries) {
      const copy = path.join(draft, library);
      await mkdir(path.dirname(copy), { recursive: true });
      await copyFile(library, copy);
    }
    for (const place of certificatePlaces.filter((each) => each !== certificatesFile)) {
      await mkdir(path.join(draft, path.dirname(place)), { recursive: true });
      await symlink(certificatesFile, path.join(draft, place));
    }
    await writeFile(path.join(draft, optionsFile), (await ownOptions(files[0]!)).join('\n'));
    for (const [name, text] of Object.entries(accounts)) await writeFile(path.join(draft, 'etc', name), text);
    await writeFile(path.join(draft, 'etc/nsswitch.conf'), 'passwd: files\ngroup: files\nhosts: files\n');
    await writeFile(path.join(draft, 'etc/hosts'), '');
    await runCommand('chmod', ['-R', 'a+rX,go-w', draft]);
    await runCommand('sync', ['-f', draft]);
    await rename(draft, folder);
    return folder;
  });
}

/**
 * Without `compat_dir`, s3fs from 1.92 on refuses to mount a path that the bucket does not have yet. Older ones refuse the
 * option.
 */
async function ownOptions(s3fs: string): Promise<string[]> {
  return /[^_]compat_dir/.test(await readFile(s3fs, 'latin1')) ? ['-o', 'compat_dir'] : [];
}

async function findProgram(program: string): Promise<string> {
  const found = ['/usr/local/bin', '/usr/bin', '/bin']
    .map((folder) => path.join(folder, program))
    .find((file) => existsSync(file));
  if (!found) throw new Error(`${program} is missing`);
  return found;
}
