import { installCommand, packageManager } from '../../platform/config/package-manager.mjs';
import { isInstalled, missingPrograms, packagesOf } from '../../platform/config/programs.mjs';
import type { DriverLogger } from '../driver-logger.ts';
import { machineProblems } from '../machine/problems.mjs';
import type { Cgroups } from './cgroups.ts';

/** @throws {Error} with instructions when this machine cannot run sandboxes */
export function requirePrerequisites(): void {
  const missing = missingHostPrograms();
  const manager = packageManager();
  const remedy = manager && installCommand(manager, packagesOf(missing, manager.family));
  const problems = [
    ...machineProblems(),
    ...(missing.length > 0 ? [`programs are missing: ${remedy ?? missing.join(' ')}`] : []),
  ];
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

/** One of the two container runtimes is enough. */
function missingHostPrograms(): string[] {
  const runtimes = ['crun', 'runc'];
  const hasRuntime = runtimes.some((runtime) => isInstalled(runtime));
  const missing = missingPrograms('host', packageManager()?.family);
  return missing.filter((name) => !(hasRuntime && runtimes.includes(name)));
}

/** Logs what sandboxes can do without. Call it after `Cgroups.prepare`. */
export function reportMissingControls(cgroups: Cgroups, logger: DriverLogger): void {
  if (cgroups.rates.arePossible) return;
  const needs = 'version 2: the controller io with CONFIG_BLK_DEV_THROTTLING, version 1: blkio with the same';
  logger.warn({ needs }, 'this machine has no limits for the rates of disks; sandboxes use their disks without them');
}
