import { isInstalled, missingPackages } from '../../platform/config/programs.mjs';
import type { DriverLogger } from '../driver-logger.ts';
import { machineProblems } from '../machine/problems.mjs';
import type { Cgroups } from './cgroups.ts';

/** @throws {Error} with instructions when this machine cannot run sandboxes */
export function requirePrerequisites(): void {
  const packages = missingHostPackages();
  const problems = [
    ...machineProblems(),
    ...(packages.length > 0 ? [`programs are missing: apt-get install ${packages.join(' ')}`] : []),
  ];
  if (problems.length > 0) throw new Error(problems.join('\n'));
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
