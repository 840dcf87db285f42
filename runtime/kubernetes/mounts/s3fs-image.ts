import { chmod, copyFile, cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { machineCertificates } from '../../../platform/config/machine-certificates.mjs';
import { certificatesFile, s3fsRootIn } from '../../mounts/s3fs-root.ts';

const serverFile = path.join(import.meta.dirname, 'serve-mount.pl');

/**
 * Writes the root folder of the image of mount pods: s3fs, its libraries, the program that starts it, and this
 * machine's certificates of public authorities.
 * @param folder an empty folder, or a path that does not exist
 * @throws {Error} when s3fs is missing
 */
export async function writeS3fsImage(cacheDir: string, folder: string): Promise<void> {
  await cp(await s3fsRootIn(cacheDir)(), folder, { recursive: true });
  const server = path.join(folder, 'usr/bin/serve-mount');
  await copyFile(serverFile, server);
  await chmod(server, 0o755);
  await mkdir(path.join(folder, 'run/platform'), { recursive: true });
  await writeFile(path.join(folder, 'etc/nsswitch.conf'), 'passwd: files\ngroup: files\nhosts: files dns\n');
  const certificates = machineCertificates();
  if (certificates) await copyFile(certificates, path.join(folder, certificatesFile));
}
