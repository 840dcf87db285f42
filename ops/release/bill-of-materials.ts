import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Writes the list of all parts (CycloneDX, JSON) of a folder: npm packages, modules of Go programs, Debian packages.
 * @param options.seconds the time in the document, in seconds since 1970
 * @param options.syft the program that finds the parts (https://github.com/anchore/syft)
 */
export async function writeBillOfMaterials(
  folder: string,
  file: string,
  options: { syft: string; name: string; version: string; seconds: number },
): Promise<void> {
  const { syft, name, version, seconds } = options;
  const words = [
    ...['scan', `dir:${folder}`, '--output', `cyclonedx-json=${file}`],
    // As for an image: what is installed, and not what lock files name.
    ...['--override-default-catalogers', 'image'],
    ...['--source-name', name, '--source-version', version, '--base-path', folder, '--quiet'],
  ];
  const settings = { SYFT_CHECK_FOR_APP_UPDATE: 'false', SYFT_FILE_METADATA_SELECTION: 'none' };
  await run(syft, words, { env: { ...process.env, ...settings }, maxBuffer: 16 << 20 });
  const document = JSON.parse(fs.readFileSync(file, 'utf8'));
  // syft takes the clock, the folder's path and a random number, so that two documents of the same parts would differ.
  document.metadata.component['bom-ref'] = `${name}@${version}`;
  document.metadata.timestamp = new Date(seconds * 1000).toISOString();
  delete document.serialNumber;
  document.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(document))}`;
  fs.writeFileSync(file, `${JSON.stringify(document, null, 1)}\n`);
}

/** A UUID of version 8 (RFC 9562), whose bits are those of the hash of a text. */
function uuidOf(text: string): string {
  const hash = createHash('sha256').update(text).digest('hex');
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}
