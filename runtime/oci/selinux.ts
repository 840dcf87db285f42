import { existsSync, writeFileSync } from 'node:fs';

/** SELinux contexts of one sandbox. */
export interface SelinuxContexts {
  /** Of its processes. */
  process: string;
  /** Of every file that they see. */
  files: string;
}

/** The kernel checks contexts that are written to this file. */
const checkFile = '/sys/fs/selinux/context';
/** Categories of a policy, in two halves: a pair with one of each identifies a sandbox. */
const half = 512;

/**
 * The contexts of the sandbox with that number, as container engines give them to containers. So processes that break
 * out of a sandbox may touch neither files of the host nor those of other sandboxes.
 * @returns null when the kernel runs without SELinux, or its policy has no types for containers
 */
export function selinuxContexts(number: number): SelinuxContexts | null {
  if (!existsSync(checkFile)) return null;
  const contexts = contextsOf(number);
  return [contexts.process, contexts.files].every(isKnown) ? contexts : null;
}

/** The types of container-selinux, and a pair of categories that no other number below 262144 has. */
export function contextsOf(number: number): SelinuxContexts {
  const level = `s0:c${number % half},c${half + (Math.floor(number / half) % half)}`;
  return {
    process: `system_u:system_r:container_t:${level}`,
    files: `system_u:object_r:container_file_t:${level}`,
  };
}

function isKnown(context: string): boolean {
  try {
    writeFileSync(checkFile, context);
    return true;
  } catch (error) {
    // EINVAL: the policy lacks the type. The others: a container that may not ask.
    if (['EINVAL', 'EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}
