import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { systemPath } from '../filesystem/path.ts';
import { checked, libc } from '../native/libc.ts';
import { isSystemError } from '../rpc/errors.ts';
import { FileRequestError } from '../transfer/file-error.ts';

/** The namespace of the attributes. E2B's own agent uses the same one. */
const attributePrefix = 'user.e2b.';
const headerPrefix = 'x-metadata-';
/** The kernel's limit of a name, and what the inode of an ext4 file can hold. */
const maxKeyBytes = 255 - attributePrefix.length;
const maxTotalBytes = 4096;
/** The kernel's limit of all names of a file. */
const maxNamesBytes = 64 * 1024;
const printable = /^[\x20-\x7e]*$/;

/**
 * The metadata in the `X-Metadata-<key>` headers of an upload. Of repeated headers, the first counts.
 * @throws {FileRequestError} 400 for text that is not printable ASCII, or is too long
 */
export function readMetadataHeaders({ rawHeaders }: IncomingMessage): Map<string, string> {
  const metadata = new Map<string, string>();
  let bytes = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    const key = name.slice(headerPrefix.length);
    if (!name.startsWith(headerPrefix) || key === '' || metadata.has(key)) continue;
    const value = rawHeaders[at + 1]!;
    if (!printable.test(key) || !printable.test(value)) {
      throw new FileRequestError(400, `metadata ${JSON.stringify(key)} must be printable ASCII`);
    }
    if (key.length > maxKeyBytes) throw new FileRequestError(400, `a metadata key may have ${maxKeyBytes} bytes`);
    bytes += attributePrefix.length + key.length + value.length;
    if (bytes > maxTotalBytes) throw new FileRequestError(400, `metadata may have ${maxTotalBytes} bytes in all`);
    metadata.set(key, value);
  }
  return metadata;
}

/** Stores metadata with an open file. File systems without attributes, such as procfs, store none. @throws errno */
export function writeMetadata({ fd }: FileHandle, metadata: Map<string, string>): void {
  for (const [key, text] of metadata) {
    const value = Buffer.from(text, 'latin1');
    try {
      checked('fsetxattr', libc().fsetxattr(fd, attributePrefix + key, value, value.length, 0));
    } catch (error) {
      if (isSystemError(error) && (error.code === 'ENOTSUP' || error.code === 'EOPNOTSUPP')) return;
      throw error;
    }
  }
}

let namesBuffer: Buffer | undefined;

/** The metadata of a file. Undefined: it has none, or more than an upload can give it. */
export function readMetadata(absolutePath: string): Record<string, string> | undefined {
  const target = systemPath(absolutePath);
  namesBuffer ??= Buffer.allocUnsafe(maxNamesBytes);
  const namesBytes = libc().listxattr(target, namesBuffer, namesBuffer.length);
  // The file is gone, or has no attributes.
  if (namesBytes <= 0) return undefined;
  const names = namesBuffer.toString('latin1', 0, namesBytes).split('\0');
  const metadata: Record<string, string> = Object.create(null);
  const value = Buffer.allocUnsafe(maxTotalBytes);
  let total = 0;
  let isEmpty = true;
  for (const name of names) {
    if (!name.startsWith(attributePrefix)) continue;
    const bytes = libc().getxattr(target, name, value, value.length);
    if (bytes < 0) continue;
    total += name.length + bytes;
    if (total > maxTotalBytes) return undefined;
    metadata[name.slice(attributePrefix.length)] = value.toString('utf8', 0, bytes);
    isEmpty = false;
  }
  return isEmpty ? undefined : metadata;
}
