import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import tls from 'node:tls';
import { renameDurably } from '../../platform/config/durable-file.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';

/**
 * A copy of the runtime folder with certificates that every sandbox trusts in addition to those of its image. The agent
 * in the sandbox adds them to the stores of the image (`agent/boot/authorities.ts`), so that no link of an image leads
 * the host to another file. Each combination is made once; the large files are the same on the disk.
 * @param certificates each in PEM
 * @returns the folder with `ca/extra.pem` (these certificates), `ca/bundle.pem` (with those of Node, for images without
 *   a store) and `ca/certificates/<hash>-<number>.pem` (one each, by OpenSSL's hash of the subject)
 */
export async function withAuthorities(runtimeFolder: string, certificates: readonly string[]): Promise<string> {
  const extra = certificates.join('');
  const bundle = `${tls.getCACertificates('bundled').join('\n')}\n${extra}`;
  const hash = createHash('sha256').update(bundle).digest('hex').slice(0, 16);
  const folder = `${runtimeFolder}-${hash}`;
  if (existsSync(folder)) return folder;
  return withFileLock(path.join(path.dirname(runtimeFolder), 'lock'), async () => {
    if (existsSync(folder)) return folder;
    const draft = `${folder}.draft`;
    await rm(draft, { recursive: true, force: true });
    await runCommand('cp', ['--archive', '--link', runtimeFolder, draft]);
    const ca = path.join(draft, 'ca');
    const single = path.join(ca, 'certificates');
    await mkdir(single, { recursive: true });
    const files: [string, string][] = [
      [path.join(ca, 'extra.pem'), extra],
      [path.join(ca, 'bundle.pem'), bundle],
    ];
    for (const [index, certificate] of certificates.entries()) {
      const subject = await runCommand('openssl', ['x509', '-noout', '-subject_hash'], { input: certificate });
      files.push([path.join(single, `${subject.trim()}-${index}.pem`), certificate]);
    }
    for (const each of [ca, single]) await chmod(each, 0o755);
    for (const [file, text] of files) await writeFile(file, text, { mode: 0o644 });
    await runCommand('sync', ['-f', draft]);
    await renameDurably(draft, folder);
    return folder;
  });
}
