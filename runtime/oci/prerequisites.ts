import { existsSync } from 'node:fs';
import os from 'node:os';
import { isInstalled, missingPackages } from '../../platform/config/programs.mjs';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups } from './cgroups.ts';

/** The first Linux version with an overlayfs that accepts idmapped layers. */
const oldestKernel = [5, 19];

/** @throws {Error} with instructions when this machine cannot run sandboxes */
export function requirePrerequisites(): void {
  if (process.platform !== 'linux') throw new Error('sandboxes run on Linux');
  if (process.getuid?.() !== 0) throw new Error('the local driver needs root');
  const [major = 0, minor = 0] = os.release().split('.').map(Number);
  if (major < oldestKernel[0]! || (major === oldestKernel[0] && minor < oldestKernel[1]!)) {
    throw new Error(`the local driver needs Linux ${oldestKernel.join('.')} or later, this is ${os.release()}`);
  }
  if (!existsSync('/dev/loop-control')) throw new Error('the local driver needs loop devices (modprobe loop)');
  const packages = missingHostPackages();
  if (packages.length > 0) throw new Error(`programs are missing: apt-get install ${packages.join(' ')}`);
}

/**
 * The missing Debian packages that this machine needs to run sandboxes. One of the two container runtimes is enough.
 */
function missingHostPackages(): string[] {
  const runtimes = ['crun', 'runc'];
  const hasRuntime = runtimes.some((runtime) => isInstalled(runtime));
  return missingPackages('host').filter((name) => !(hasRuntime && runtimes.includes(name)));
}

/** Logs what sandboxes can do without. Call it after `Cgroups.prepare`. */
export function reportMissingControls(cgroups: Cgroups, logger: DriverLogger): void {
  if (cgroups.rates.arePossible) return;
  const needs = 'version 2: the controller io with CONFIG_BLK_DEV_THROTTLING, version 1: blkio with the same';
  logger.warn({ needs }, 'this machine has no limits for the rates of disks; sandboxes use their disks without them');
}
