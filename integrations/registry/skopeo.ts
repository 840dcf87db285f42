import { spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { makeProcessFolder } from '../../platform/config/process-folder.ts';
import { UnusableImageError } from './external-image.ts';
import type { RegistryCredentials } from './registry-client.ts';

/** The copying tool failed. The message is its output. */
export class SkopeoError extends Error {
  override name = 'SkopeoError';
}

export interface SkopeoCopy {
  from: string;
  to: string;
  /** By the address of the registry. The tool gets them in a file in memory. */
  credentials: ReadonlyMap<string, RegistryCredentials>;
  /** Use plain HTTP to the target. */
  toPlainHttp: boolean;
  /** PEM of a certificate authority of the target. */
  toCa: string | null;
  /** Compress layers again with gzip. */
  asGzip: boolean;
  /** The copy ends when the tool has sent more bytes. */
  maxBytesSent: number;
  /** Called with all bytes that the tool has sent so far. */
  onSent(bytes: number): void;
  onLine(line: string): void;
  signal: AbortSignal;
}

const tailLength = 2000;
const sentCheckMs = 100;
/**
 * The tool reads untrusted data, so it gets no privileges, no secrets in its environment, and no cache of other
 * tenants.
 */
const nobody = 65_534;

/**
 * Copies an image between registries.
 * @returns the digest of the manifest at the target
 * @throws {UnusableImageError} when the tool sends too many bytes
 */
export async function skopeoCopy(copy: SkopeoCopy): Promise<string> {
  copy.signal.throwIfAborted();
  const memory = existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir();
  const folder = makeProcessFolder(memory, 'sandbox-platform-import-');
  try {
    return await run(copy, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(copy: SkopeoCopy, folder: string): Promise<string> {
  const asRoot = process.getuid?.() === 0;
  const auths = Object.fromEntries(
    [...copy.credentials].map(([address, { username, password }]) => [
      address,
      { auth: Buffer.from(`${username}:${password}`).toString('base64') },
    ]),
  );
  const file = (name: string) => path.join(folder, name);
  writeFileSync(file('auth.json'), JSON.stringify({ auths }), { mode: 0o600 });
  mkdirSync(file('certs'));
  if (copy.toCa) writeFileSync(file('certs/ca.crt'), copy.toCa);
  if (asRoot) for (const name of ['', 'auth.json', 'certs']) chownSync(file(name), nobody, nobody);
  const args = [
    ...['--insecure-policy', 'copy', '--authfile', file('auth.json'), '--digestfile', file('digest')],
    ...['--src-tls-verify=false'],
    ...(copy.toPlainHttp ? ['--dest-tls-verify=false'] : []),
    ...(copy.toCa ? ['--dest-cert-dir', file('certs')] : []),
    ...(copy.asGzip ? ['--dest-compress-format', 'gzip'] : []),
    ...[`docker://${copy.from}`, `docker://${copy.to}`],
  ];
  const child = spawn('skopeo', args, {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder, XDG_DATA_HOME: folder, XDG_RUNTIME_DIR: folder, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: copy.signal,
    killSignal: 'SIGKILL',
    ...(asRoot && { uid: nobody, gid: nobody }),
  });
  let tail = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    createInterface({ input: stream }).on('line', (line) => {
      tail = `${tail}${line}\n`.slice(-tailLength);
      copy.onLine(line.slice(0, tailLength));
    });
  }
  let sentTooMuch = false;
  const checking = setInterval(() => {
    const sent = bytesWritten(child.pid);
    if (sent > 0) copy.onSent(sent);
    if (sent <= copy.maxBytesSent) return;
    sentTooMuch = true;
    child.kill('SIGKILL');
  }, sentCheckMs);
  const code = await new Promise<number | null>((resolve, reject) => {
    // An abort emits an error at once, before the process has exited.
    child.on('error', (error) => {
      if (error.name !== 'AbortError') reject(error);
    });
    child.once('close', resolve);
  }).finally(() => clearInterval(checking));
  copy.signal.throwIfAborted();
  if (sentTooMuch) throw new UnusableImageError('The layers grow too much when they are converted to gzip');
  if (code !== 0) throw new SkopeoError(tail.trim() || `skopeo ended with ${code ?? 'a signal'}`);
  return readFileSync(file('digest'), 'utf8').trim();
}

/** All bytes that a process has written, to sockets too. 0 if the process has ended, or the kernel does not show it. */
function bytesWritten(pid: number | undefined): number {
  try {
    return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
