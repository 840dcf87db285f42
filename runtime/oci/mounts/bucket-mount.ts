import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { closedIpv4Ranges, closedIpv6Ranges, publicIpv6Range } from '../../../domain/outbound-addresses.ts';
import type { MountCredentials, MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { readStorageTarget, type StorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import { machineCertificates } from '../../../platform/config/machine-certificates.mjs';
import type { OwnService } from '../../../platform/config/own-services.ts';
import type { DirectMount } from '../../driver.ts';
import { explainS3fs, hasAnswered, mountFailure, noUsableAnswer } from '../../mounts/failures.ts';
import { credentialsFile, s3fsOptions } from '../../mounts/s3fs-options.ts';
import { type ProcessIdentity, processIdentity } from '../../process/process-identity.ts';
import type { Cgroups } from '../cgroups.ts';
import type { OciRuntime } from '../oci-runtime.ts';
import type { SeccompConfig } from '../seccomp.ts';
import { mountMemoryBytes, mountProcessLimit, s3fsContainer } from './s3fs-container.ts';

const holderFile = path.join(import.meta.dirname, 'hold-mount.pl');

/** The container of a mount, with the host numbers of its processes. */
export interface MountedContainer {
  folder: string;
  /** The name of the container. */
  instance: string;
  shimPid: number;
  initPid: number;
  /** The sandbox's root on the host. */
  uidBase: number;
}

export interface HolderOptions {
  /** The group of the relays of all buckets, by which the firewall matches them. */
  gid: number;
  runtime: OciRuntime;
  /** Returns the root folder of an isolated s3fs, which is made on the first call. */
  s3fsRoot: () => Promise<string>;
  seccomp: SeccompConfig;
  cgroups: Cgroups;
  /** The current address ranges for endpoints. */
  egress: () => Egress;
  timeoutSeconds: number;
}

/** The address rules, which the firewall also applies to every connection. */
export interface Egress {
  /** CIDR ranges that the operator opened in addition to the public internet. */
  allowedRanges: readonly string[];
  /** CIDR ranges that stay closed, even inside an opened range. */
  closedRanges: readonly string[];
  ownServices: readonly OwnService[];
}

/** All failures at an endpoint in a range that the operator opened are reported after this share of the timeout. */
const openedPart = 0.5;

/** Called with the holder's process as soon as it exists, so that it can be found after a crash. */
export type OnHolder = (holder: ProcessIdentity) => Promise<void>;

/**
 * Starts an s3fs for one slot. The mount is not visible in the sandbox yet. s3fs outlives this process and ends with
 * the container.
 * @returns the minor number of its mount's device, when s3fs has reached the bucket
 * @throws {DriverError} `object_storage_mount_failed` with the reason, after which none of its processes run
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
    : isolatedArguments(container, target, slot, options, await options.s3fsRoot());
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
  // If the holder ends before it has read its input, it has printed the reason.
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

function isolatedArguments(
  container: MountedContainer,
  target: StorageTarget,
  slot: MountSlot,
  { cgroups, egress, runtime, seccomp }: HolderOptions,
  s3fsRoot: string,
): { args: Record<string, string | number>; config: string } {
  const name = `mount-${slot.slot}-${randomBytes(3).toString('hex')}`;
  const limit = { memoryBytes: mountMemoryBytes, processes: mountProcessLimit };
  const groups = cgroups.storage.mountGroups(container.instance, name, limit);
  const { allowedRanges, closedRanges, ownServices } = egress();
  const { uidBase } = container;
  return {
    args: {
      root: s3fsRoot,
      certificates: machineCertificates() ?? '',
      hide: runtime.hide ?? '',
      host: target.host,
      port: target.port,
      // If the sandbox runs out of memory, s3fs is as likely to be killed as another process of its size.
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

/** The format of s3fs's own credentials file. It has no field for a session token. */
function ownCredentialsFile({ accessKey, secretKey }: MountCredentials): string {
  return `AWSAccessKeyId=${accessKey}\nAWSSecretKey=${secretKey}\n`;
}

/**
 * The reason why an isolated s3fs could not mount. For an endpoint in a range that the operator opened, a caller only
 * learns whether an S3 server answered. A closed or filtered port, a port of the platform and a port of another program
 * give the same text after the same time.
 */
async function explainWalled(
  said: readonly string[],
  target: StorageTarget,
  { openedMs, stopped, late }: { openedMs: () => number; stopped: AbortSignal; late: AbortSignal },
): Promise<string> {
  const found = said.find((line) => line.startsWith('endpoint ')) ?? '';
  if (/ unresolved$/.test(found)) return `The name ${target.host} could not be resolved`;
  if (/ closed$/.test(found)) return `${target.host} is at an address that is not allowed`;
  const last = said.at(-1) ?? '';
  if (hasAnswered(last)) return explainS3fs(last);
  if (!/ public /.test(found) && !late.aborted) {
    await delay(openedMs(), undefined, { signal: stopped }).catch(() => undefined);
  }
  return noUsableAnswer;
}
