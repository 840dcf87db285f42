import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { OwnService } from '../../../config/own-services.ts';
import type { MountCredentials, MountSlot } from '../../../domain/object-storage.ts';
import { closedIpv4Ranges, closedIpv6Ranges, publicIpv6Range } from '../../../domain/outbound-addresses.ts';
import { readStorageTarget, type StorageTarget } from '../../../domain/storage-endpoint.ts';
import type { DirectMount } from '../../driver.ts';
import { explainS3fs, hasAnswered, mountFailure, noUsableAnswer } from '../../mounts/failures.ts';
import { credentialsFile, s3fsOptions } from '../../mounts/s3fs-options.ts';
import { type ProcessIdentity, processIdentity } from '../../process/process-identity.ts';
import type { Cgroups } from '../cgroups.ts';
import type { OciRuntime } from '../oci-runtime.ts';
import type { SeccompConfig } from '../seccomp.ts';
import { mountMemoryBytes, mountProcessLimit, s3fsContainer } from './s3fs-container.ts';

const holderFile = path.join(import.meta.dirname, 'hold-mount.pl');

/** The container that a mount is for, by its processes' numbers on the host. */
export interface MountedContainer {
  folder: string;
  /** The container's name. */
  instance: string;
  shimPid: number;
  initPid: number;
  /** The sandbox's root on the host. */
  uidBase: number;
}

export interface HolderOptions {
  /** The group by which the firewall knows the relays of all buckets. */
  gid: number;
  runtime: OciRuntime;
  /** The root folder of a walled s3fs, made when it is first asked for. */
  s3fsRoot: () => Promise<string>;
  seccomp: SeccompConfig;
  cgroups: Cgroups;
  /** The address ranges in which endpoints may be at present. */
  egress: () => Egress;
  timeoutSeconds: number;
}

/** The firewall applies the same rules to every connection. */
export interface Egress {
  /** CIDR ranges beyond the public internet that the operator opened. */
  allowedRanges: readonly string[];
  /** CIDR ranges that stay closed, whatever the operator opened. */
  closedRanges: readonly string[];
  ownServices: readonly OwnService[];
}

/** Failures at an endpoint in a range that the operator opened are all reported after this share of the timeout. */
const openedPart = 0.5;

/** Called with the holder's process as soon as it exists, so that it can be found again after a crash. */
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
  options.signal?.throwIfAborted();

  const startedMs = Date.now();
  const openedMs = () => Math.max(0, startedMs + openedPart * options.timeoutSeconds * 1000 - Date.now());
  const { args, config } = direct
    ? { args: directArguments(container, target, options, direct), config: '' }
    : walledArguments(container, target, slot, options, await options.s3fsRoot());
  const words = Object.entries({ ...commonArguments(container, options), ...args });
  const child = spawn('perl', [holderFile, ...words.map(([key, value]) => `${key}=${value}`)], {
    cwd: '/',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  child.unref();
  const { signal } = options;
  const late = AbortSignal.timeout(options.timeoutSeconds * 1000);
  const said: string[] = [];
  let opened: NodeJS.Timeout | undefined;
  const stopped = signal ? AbortSignal.any([signal, late]) : late;
  const end = () => child.kill('SIGTERM');
  stopped.addEventListener('abort', end, { once: true });
  // A holder that ended before it read has printed the reason.
  child.stdin.on('error', () => {});
  try {
    const line = await new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stdout })
        .on('line', (each) => {
          said.push(each);
          if (each.startsWith('endpoint opened ')) opened = setTimeout(end, openedMs());
          if (each.startsWith('ready ')) resolve(each);
        })
        .once('close', () => resolve(said.at(-1) ?? 'error'));
      child.once('error', reject);
      child.once('spawn', () => {
        const holder = processIdentity(child.pid!);
        const reported = holder ? options.onHolder(holder) : Promise.resolve();
        reported.then(
          () =>
            child.stdin.end(`${direct ? ownCredentialsFile(credentials) : credentialsFile(credentials)}\0${config}`),
          reject,
        );
      });
    });
    const ready = /^ready (\d+)$/.exec(line);
    if (ready) return Number(ready[1]);
    signal?.throwIfAborted();
    const reason = direct ? explainS3fs(line, direct) : await explainWalled(said, target, { openedMs, stopped, late });
    signal?.throwIfAborted();
    throw mountFailure(slot, direct && late.aborted ? 'the storage did not answer in time' : reason);
  } catch (error) {
    end();
    throw error;
  } finally {
    clearTimeout(opened);
    stopped.removeEventListener('abort', end);
  }
}

function commonArguments(container: MountedContainer, options: HolderOptions): Record<string, string | number> {
  return {
    arch: process.arch,
    init: container.initPid,
    shim: container.shimPid,
    owner: container.uidBase,
    gid: options.gid,
    cgroups: options.cgroups.shimFolders().join(':'),
    runtime: options.runtime.path,
  };
}

function directArguments(
  container: MountedContainer,
  target: StorageTarget,
  _: HolderOptions,
  direct: DirectMount,
): Record<string, string> {
  return {
    id: container.instance,
    s3fs: direct.s3fsPath,
    source: `${target.bucket}:${target.path}`,
    options: s3fsOptions(target).join('\n'),
  };
}

function walledArguments(
  container: MountedContainer,
  target: StorageTarget,
  slot: MountSlot,
  { cgroups, egress, runtime, seccomp }: HolderOptions,
  s3fsRoot: string,
): { args: Record<string, string | number>; config: string } {
  const name = `mount-${slot.slot}-${randomBytes(3).toString('hex')}`;
  const limit = { memoryBytes: mountMemoryBytes, processes: mountProcessLimit };
  const groups = cgroups.mountGroups(container.instance, name, limit);
  const { allowedRanges, closedRanges, ownServices } = egress();
  const { uidBase } = container;
  return {
    args: {
      root: s3fsRoot,
      hide: runtime.hide ?? '',
      host: target.host,
      port: target.port,
      // When the sandbox runs out of memory, s3fs is no more likely to be killed than another process of its size.
      oomScore: readFileSync(`/proc/${container.initPid}/oom_score_adj`, 'latin1').trim(),
      relayGroups: groups.relay.join(':'),
      madeGroups: groups.made.join(':'),
      charged: groups.charged.join(':'),
      limits: groups.limits.map(([file, text]) => `${file}=${text}`).join(','),
      allGroups: groups.all.join(':'),
      freezerRoot: groups.freezerRoot ?? '',
      allowed: allowedRanges.join(','),
      never: closedRanges.join(','),
      closed: [...closedIpv4Ranges, ...closedIpv6Ranges].join(','),
      publicIpv6: publicIpv6Range,
      ownServices: ownServices
        .map(({ address, port }) => `${address.includes(':') ? `[${address}]` : address}:${port}`)
        .join(','),
    },
    config: JSON.stringify(s3fsContainer({ target, uidBase, cgroupPath: groups.runtimePath, seccomp })),
  };
}

/** The format in which s3fs reads keys from a file; it has no field for a session token. */
function ownCredentialsFile({ accessKey, secretKey }: MountCredentials): string {
  return `AWSAccessKeyId=${accessKey}\nAWSSecretKey=${secretKey}\n`;
}

/**
 * Why a walled s3fs could not mount. For an endpoint in a range that the operator opened, a caller learns only whether
 * an S3 server answered: a port that is closed, filtered, the platform's own or another program's gives the same text
 * at the same time after the start.
 */
async function explainWalled(
  said: readonly string[],
  target: StorageTarget,
  { openedMs, stopped, late }: { openedMs: () => number; stopped: AbortSignal; late: AbortSignal },
): Promise<string> {
  const found = said.find((line) => line.startsWith('endpoint ')) ?? '';
  if (/ unresolved$/.test(found)) return `The name ${target.host} could not be resolved`;
  if (/ closed$/.test(found)) return `${target.host} is at an address that may not be connected to`;
  const last = said.at(-1) ?? '';
  if (hasAnswered(last)) return explainS3fs(last);
  if (!/ public /.test(found) && !late.aborted) {
    await delay(openedMs(), undefined, { signal: stopped }).catch(() => undefined);
  }
  return noUsableAnswer;
}
