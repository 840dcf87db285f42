import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { writeFileDurably } from '../../config/durable-file.ts';
import { readRegistryImage } from '../../domain/template-image.ts';
import type { RegistryAccess } from './image-store.ts';

/** The platform's registry, as a host's settings name it. */
export interface HostRegistry {
  /** Host and port. */
  address: string;
  username: string | null;
  passwordFile: string | null;
  /** PEM. */
  caFile: string | null;
}

/** How a host pulls images of the platform's registry. */
export interface PlatformRegistryAccess {
  /** The reference of an image, by digest. Null: it is not an image of that registry. */
  referenceOf(image: string): string | null;
  access: RegistryAccess;
}

/** @param folder the host's own folder, for files that skopeo reads: no secret is an argument */
export async function openRegistryAccess(registry: HostRegistry, folder: string): Promise<PlatformRegistryAccess> {
  await mkdir(path.join(folder, 'certs'), { recursive: true, mode: 0o700 });
  const inspect: string[] = [];
  const copyFrom: string[] = [];
  if (registry.username && registry.passwordFile) {
    const password = (await readFile(registry.passwordFile, 'utf8')).trim();
    const auth = Buffer.from(`${registry.username}:${password}`).toString('base64');
    const file = path.join(folder, 'auth.json');
    await writeFileDurably(file, JSON.stringify({ auths: { [registry.address]: { auth } } }));
    inspect.push('--authfile', file);
    copyFrom.push('--authfile', file);
  }
  if (registry.caFile) {
    await writeFileDurably(path.join(folder, 'certs/ca.crt'), await readFile(registry.caFile, 'utf8'));
    inspect.push('--cert-dir', path.join(folder, 'certs'));
    copyFrom.push('--src-cert-dir', path.join(folder, 'certs'));
  }
  return {
    referenceOf: (image) => {
      const stored = readRegistryImage(image);
      return stored && `${registry.address}/${stored.path}@${stored.digest}`;
    },
    access: { inspect, copyFrom },
  };
}
