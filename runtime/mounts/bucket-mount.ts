import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { MountCredentials, MountSlot } from '../../domain/object-storage.ts';
import { readStorageTarget, type StorageTarget } from '../../domain/storage-endpoint.ts';
import { type DirectMount, DriverError } from '../driver.ts';
import { type ProcessIdentity, processIdentity } from '../process/process-identity.ts';
import { checkEndpoint } from './endpoint-check.ts';

const holderFile = path.join(import.meta.dirname, 'hold-mount.pl');

/** The container that a mount is for, by the host's numbers of its processes. */
export interface MountedContainer {
  folder: string;
  /** Its name to the container runtime. */
  instance: string;
  shimPid: number;
  initPid: number;
  /** The sandbox's root on the host. */
  uidBase: number;
}

export interface HolderOptions {
  /** What the firewall knows s3fs by. */
  gid: number;
  /** The program that makes containers. */
  runtimePath: string;
  /** Control groups that survive the host worker. */
  cgroups: string[];
  /** CIDR ranges that the operator opened. */
  allowedRanges: readonly string[];
  timeoutSeconds: number;
}

/** Told the holder's process as soon as it is there, so that it can be found again whatever happens next. */
export type OnHolder = (holder: ProcessIdentity) => Promise<void>;

/**
 * Starts an s3fs for one slot, not yet visible in the sandbox. It outlives this process and ends with the container.
 * @returns the minor number of its mount's device, once it has reached the bucket
 * @throws {DriverError} `object_storage_mount_failed` with what is wrong; nothing of it runs then.
 */
export async function holdBucket(
  container: MountedContainer,
  slot: MountSlot,
  credentials: MountCredentials,
  options: HolderOptions & { onHolder: OnHolder; direct?: DirectMount; signal?: AbortSignal },
): Promise<number> {
  const target = readStorageTarget(slot);
  if ('reason' in target) throw mountFailure(slot, `its ${target.field} ${target.reason}`);
  const { direct } = options;
  // In the sandbox its own firewall holds s3fs, and its own names count.
  const wrong = direct ? null : await checkEndpoint(target.host, target.port, options.allowedRanges);
  if (wrong) throw mountFailure(slot, wrong);
  options.signal?.throwIfAborted();

  const child = spawn('perl', [holderFile, ...holderArguments(container, target, options)], {
    cwd: '/',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  child.unref();
  const { signal } = options;
  const late = AbortSignal.timeout(options.timeoutSeconds * 1000);
  const stopped = signal ? AbortSignal.any([signal, late]) : late;
  const end = () => child.kill('SIGTERM');
  stopped.addEventListener('abort', end, { once: true });
  // A holder that ended before it read says why on its output.
  child.stdin.on('error', () => {});
  try {
    const line = await new Promise<string>((resolve, reject) => {
      const said: string[] = [];
      createInterface({ input: child.stdout })
        .on('line', (each) => {
          said.push(each);
          if (each.startsWith('ready ')) resolve(each);
        })
        .once('close', () => resolve(said.at(-1) ?? 'error'));
      child.once('error', reject);
      child.once('spawn', () => {
        const holder = processIdentity(child.pid!);
        const told = holder ? options.onHolder(holder) : Promise.resolve();
        told.then(
          () => child.stdin.end(direct ? ownCredentialsFile(credentials) : credentialsFile(credentials)),
          reject,
        );
      });
    });
    const ready = /^ready (\d+)$/.exec(line);
    if (ready) return Number(ready[1]);
    signal?.throwIfAborted();
    throw mountFailure(slot, late.aborted ? 'the storage did not answer in time' : explain(line, direct));
  } catch (error) {
    end();
    throw error;
  } finally {
    stopped.removeEventListener('abort', end);
  }
}

function holderArguments(
  container: MountedContainer,
  target: StorageTarget,
  options: HolderOptions & { direct?: DirectMount },
): string[] {
  const args = {
    arch: process.arch,
    init: container.initPid,
    shim: container.shimPid,
    owner: container.uidBase,
    gid: options.gid,
    cgroups: options.cgroups.join(':'),
    source: `${target.bucket}:${target.path}`,
    url: target.url,
    region: target.region ?? '',
    pathStyle: target.pathStyle ? '1' : '',
    ...(options.direct && { runtime: options.runtimePath, id: container.instance, s3fs: options.direct.s3fsPath }),
  };
  return Object.entries(args).map(([key, value]) => `${key}=${value}`);
}

function credentialsFile({ accessKey, secretKey, sessionToken }: MountCredentials): string {
  const token = sessionToken === null ? '' : `aws_session_token=${sessionToken}\n`;
  return `[default]\naws_access_key_id=${accessKey}\naws_secret_access_key=${secretKey}\n${token}`;
}

/** The form that s3fs reads where it is told a file; it knows no session token there. */
function ownCredentialsFile({ accessKey, secretKey }: MountCredentials): string {
  return `AWSAccessKeyId=${accessKey}\nAWSSecretKey=${secretKey}\n`;
}

/** What s3fs says at its end, in words for the user. Its own words name hosts and files of this machine. */
function explain(said: string, direct?: DirectMount): string {
  if (direct && /executable file .*not found|open executable|exec failed|exec: /.test(said)) {
    return `the image has no program ${direct.s3fsPath}`;
  }
  if (/invalid credentials/i.test(said)) return 'the storage refused the credentials';
  if (/Bad Request/.test(said))
    return 'the storage took the request for a wrong one: look at the endpoint and the region';
  if (/bucket or (key|directory) not found/i.test(said))
    return 'the storage knows no such bucket, or not this access key';
  if (/remote mountpath .* not found|directory\(.*\) not found/.test(said)) return 'the bucket has no such path';
  if (/unable to connect/i.test(said)) return 'the storage could not be reached';
  if (/fuse: device not found|\/dev\/fuse/.test(said)) return 'the host has no FUSE (modprobe fuse)';
  if (/s3fs: No such file/.test(said)) return 'the host has no s3fs';
  return 'the storage gave no usable answer';
}

export function mountFailure(slot: MountSlot, reason: string, cause?: unknown): DriverError {
  return new DriverError('object_storage_mount_failed', `${slot.uri} could not be mounted: ${reason}`, { cause });
}
