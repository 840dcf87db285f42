import { constants, existsSync } from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';

/** The certificates that the operator gives every sandbox. It is missing if there are none. */
const givenFolder = '/.platform/ca';

/** Files with all certificates of an image, of Debian, Ubuntu, Alpine, Fedora, RHEL and openSUSE. */
const stores = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/var/lib/ca-certificates/ca-bundle.pem',
  '/etc/ssl/ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
];
const usualStore = stores[0]!;
/** Where OpenSSL looks for a certificate by the hash of its subject. */
const hashFolder = '/etc/ssl/certs';
/** Folders from which `update-ca-certificates` and `update-ca-trust` make the stores again. */
const anchorFolders = ['/etc/pki/ca-trust/source/anchors', '/etc/pki/trust/anchors'];
const usualAnchors = '/usr/local/share/ca-certificates';
/** Those of Mozilla have 0.2 MB. */
const maxStoreBytes = 16 * 1024 * 1024;
/** A file system in user space may hang when the agent starts again. */
const timeoutMs = 2000;

/**
 * Adds the operator's certificates to the stores of this image. It works inside the sandbox, so a link of the image
 * leads to nothing outside. A failure is logged and does not prevent the start.
 * @returns the variables with which programs find the stores. Empty without certificates
 */
export async function trustAuthorities(): Promise<Record<string, string>> {
  if (!existsSync(givenFolder)) return {};
  const extra = path.join(givenFolder, 'extra.pem');
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), timeoutMs);
  });
  const added = addToStores().catch((error: Error) => {
    console.error('agent: the certificates could not be added:', error.message);
    return null;
  });
  const store = (await Promise.race([added, deadline])) ?? path.join(givenFolder, 'bundle.pem');
  clearTimeout(timer);
  return {
    // These add to the certificates that the program has.
    NODE_EXTRA_CA_CERTS: extra,
    DENO_CERT: extra,
    // These replace them, so they name a file with all certificates.
    SSL_CERT_FILE: store,
    CURL_CA_BUNDLE: store,
    GIT_SSL_CAINFO: store,
    PIP_CERT: store,
    REQUESTS_CA_BUNDLE: store,
  };
}

/** @returns the store of the image */
async function addToStores(): Promise<string> {
  const certificatesFolder = path.join(givenFolder, 'certificates');
  const files = (await fs.readdir(certificatesFolder)).map((name) => path.join(certificatesFolder, name));
  const certificates = await Promise.all(files.map((file) => fs.readFile(file, 'latin1')));
  const found: string[] = [];
  for (const store of stores) if (await appendMissing(store, certificates)) found.push(store);
  if (found.length === 0) {
    await fs.mkdir(path.dirname(usualStore), { recursive: true });
    await fs.copyFile(path.join(givenFolder, 'bundle.pem'), usualStore, constants.COPYFILE_EXCL);
  }
  await fs.mkdir(usualAnchors, { recursive: true });
  for (const file of files) {
    const name = path.basename(file, '.pem');
    await linkByHash(file, name.split('-')[0]!);
    for (const folder of [usualAnchors, ...anchorFolders]) {
      if (existsSync(folder)) await link(file, path.join(folder, `platform-${name}.crt`));
    }
  }
  return found[0] ?? usualStore;
}

/**
 * @returns false if there is no such file. A special file, such as a pipe, is left alone.
 */
async function appendMissing(store: string, certificates: readonly string[]): Promise<boolean> {
  let handle: FileHandle;
  try {
    handle = await fs.open(store, constants.O_RDWR | constants.O_APPEND | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENXIO', 'EISDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code!))
      return false;
    throw error;
  }
  try {
    const stat = await handle.stat();
    if (!stat.isFile() || stat.size > maxStoreBytes) return false;
    const text = await handle.readFile('latin1');
    const missing = certificates.filter((certificate) => !text.includes(bodyOf(certificate)));
    const separator = text === '' || text.endsWith('\n') ? '' : '\n';
    if (missing.length > 0) await handle.appendFile(separator + missing.join(''), 'latin1');
    return true;
  } finally {
    await handle.close();
  }
}

/** Without the lines around it, which stores may write in another way. */
const bodyOf = (certificate: string) => certificate.replaceAll(/-----[^-]*-----/g, '').trim();

/** `<hash>.0`, or the next number if another certificate has this subject hash. */
async function linkByHash(file: string, hash: string): Promise<void> {
  if (!existsSync(hashFolder)) return;
  for (let number = 0; number < 16; number += 1)
    if (await link(file, path.join(hashFolder, `${hash}.${number}`))) return;
}

/** @returns false when another file has this name */
async function link(file: string, name: string): Promise<boolean> {
  try {
    await fs.symlink(file, name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return (await fs.readlink(name).catch(() => null)) === file;
  }
}
