import { existsSync } from 'node:fs';
import { runCommand } from '../process/command.ts';
import type { Cgroups } from './cgroups.ts';

/** The container runtime, and its needs on this machine. */
export interface OciRuntime {
  name: 'crun' | 'runc';
  path: string;
  version: string;
  /**
   * A mount that the runtime must not see. crun before 1.9 refuses machines with both versions of control groups, so
   * another mount hides version 2 from it.
   */
  hide: string | null;
}

/**
 * The requested runtime. Otherwise crun, which makes a container in half the time. Otherwise runc.
 * @throws {Error} with the Debian package to install when it is missing
 */
export async function findRuntime(wanted: 'crun' | 'runc' | undefined, cgroups: Cgroups): Promise<OciRuntime> {
  const names: OciRuntime['name'][] = wanted ? [wanted] : ['crun', 'runc'];
  for (const name of names) {
    const path = ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin']
      .map((folder) => `${folder}/${name}`)
      .find((file) => existsSync(file));
    if (!path) continue;
    const version = await runCommand(path, ['--version']);
    return { name, path, version, hide: name === 'crun' ? cgroups.hybridRoot : null };
  }
  throw new Error(`no container runtime is there: install the Debian package ${names.join(' or ')}`);
}
