import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { type Settings, SettingsError } from './settings.ts';

/** Far more than the certificates of a company. */
const maxFileBytes = 1024 * 1024;

/**
 * The certificates that every sandbox trusts in addition to those of its image (`PLATFORM_SANDBOX_CA_FILE`).
 * @returns each as PEM; null without the setting
 * @throws {SettingsError} when the file cannot be read, or is not a list of certificates in PEM
 */
export function readSandboxCa(settings: Pick<Settings, 'PLATFORM_SANDBOX_CA_FILE'>): string[] | null {
  const file = settings.PLATFORM_SANDBOX_CA_FILE;
  if (file === undefined) return null;
  const refuse = (reason: string) => new SettingsError(`PLATFORM_SANDBOX_CA_FILE: ${file} ${reason}`);
  let text: string;
  try {
    if (statSync(file).size > maxFileBytes) throw refuse(`is larger than ${maxFileBytes} bytes`);
    text = readFileSync(file, 'latin1');
  } catch (error) {
    if (error instanceof SettingsError) throw error;
    throw refuse(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (text.includes('PRIVATE KEY')) throw refuse('contains a private key, which every sandbox could read');
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  const begun = text.match(/-----BEGIN /g) ?? [];
  if (blocks.length === 0) throw refuse('contains no certificate in PEM');
  if (blocks.length !== begun.length) throw refuse('contains something other than whole certificates in PEM');
  return blocks.map((block, index) => {
    try {
      // Written again, so that each has lines of the same length.
      return new X509Certificate(block).toString();
    } catch {
      throw refuse(`is damaged: certificate ${index + 1} of ${blocks.length} cannot be read`);
    }
  });
}
